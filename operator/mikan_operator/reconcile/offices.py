"""Reconciling an Office: from what is wished and what is there to pods and a status that tells the truth about both."""

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import datetime, timedelta

from mikan_api import names
from mikan_api.effective import EffectiveOffice
from mikan_api.resources import ConditionType, EffectiveDoorPolicy, OfficeStatus, PodReference, Reason
from mikan_api.sandbox_mode import SandboxKind
from mikan_operator import metrics
from mikan_operator.builders import access
from mikan_operator.builders.agent_pod import agent_pod
from mikan_operator.builders.plan import OfficePlan
from mikan_operator.builders.sandbox_pod import sandbox_pod
from mikan_operator.cache import Cache
from mikan_operator.conditions import State, false, merge, transitions, true
from mikan_operator.exceptions import Forbidden, Invalid, NamespaceTerminating, NotFound
from mikan_operator.inputs import Inputs
from mikan_operator.installation import Installation
from mikan_operator.observed import ANNOTATION_TOKEN_VERSION, OfficeObject, PodObject
from mikan_operator.reconcile.children import Children, Leftover, NotOwned
from mikan_operator.reconcile.crowd import Crowd
from mikan_operator.reconcile.decision import Wish, decide
from mikan_operator.reconcile.events import EventRecorder
from mikan_operator.reconcile.pod_states import pod_state, summary
from mikan_operator.reconcile.ports import Clock, ObjectStore
from mikan_operator.reconcile.retention import Retention
from mikan_operator.reconcile.vault_binding import Binding, VaultInspector
from mikan_operator.storage.kinds import OFFICE, RUNTIME_CLASS, Manifest

RETRY_SECONDS = 30.0
"""After what no watch will tell us of: a quota raised, a foreign object gone, a RuntimeClass made."""
LEFTOVER_SECONDS = 1.0
"""Until garbage collection has taken what an earlier Office of this name left."""
FORGIVEN_AFTER = timedelta(minutes=10)
MAX_HOLD = timedelta(minutes=5)
_AGENT, _SANDBOX = ConditionType.AGENT_READY, ConditionType.SANDBOX_READY


@dataclass(slots=True)
class Situation:
    """One look at an office, filled in as the reconcile goes on."""

    office: OfficeObject
    wish: Wish
    binding: Binding
    plan: OfficePlan | None = None
    sandbox_fault: State | None = None
    blocked: State | None = None
    """Why pods that are wanted can't be made now."""
    stale: str = ""
    again: float | None = None
    """Seconds after which to look again."""

    @property
    def refusal(self) -> State | None:
        """Why no pods are wanted, all considered."""
        if self.wish.refusal:
            return self.wish.refusal
        for part in (self.sandbox_fault, self.binding.state):
            if part is not None and not part.is_true:
                return false(ConditionType.READY, part.reason, part.message)
        return None

    def look_within(self, seconds: float) -> None:
        """Look again after so long at the latest."""
        self.again = seconds if self.again is None else min(self.again, seconds)


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: datetime | None = None
    fault: str = ""
    """What the last pod that failed complained of."""


class OfficeReconciler:
    """Brings offices to what is wished of them."""

    def __init__(
        self,
        cache: Cache,
        store: ObjectStore,
        children: Children,
        retention: Retention,
        inspector: VaultInspector,
        events: EventRecorder,
        inputs: Callable[[], Inputs],
        installation: Installation,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._store = store
        self._children = children
        self._retention = retention
        self._inspector = inspector
        self._events = events
        self._inputs = inputs
        self._installation = installation
        self._clock = clock
        self._crowd = Crowd(clock)
        self._failures: dict[str, _Failures] = {}
        self._reasons: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    async def reconcile(self, key: str) -> float | None:
        """Do what is due for an office. Returns after how many seconds to look again, if at all."""
        office = self._cache.offices.get(key)
        if office is None or office.meta.deleting:
            self._forget(key, office)
            return await self._retention.clean(office) if office is not None and office.finalized else None
        situation = await self._look(office)
        try:
            await self._retention.keep(office)
            await self._act(situation)
        except NamespaceTerminating:
            return None  # everything here is going; nothing to say and nobody to say it to
        except NotOwned as error:
            self._block(situation, Reason.NOT_OWNED, str(error))
        except Leftover as error:
            self._block(situation, Reason.TERMINATING, str(error), LEFTOVER_SECONDS)
        except (Forbidden, Invalid) as error:
            self._block(situation, Reason.FORBIDDEN, str(error))
        await self._publish(situation)
        return situation.again

    # -- looking ---------------------------------------------------------------------------------------------------

    async def _look(self, office: OfficeObject) -> Situation:
        wish = decide(office, self._inputs().settings, self._clock())
        if wish.effective is None:
            state = false(ConditionType.VAULT_READY, wish.refusal.reason if wish.refusal else Reason.INVALID_POLICY)
            return Situation(office, wish, Binding(state))
        situation = Situation(office, wish, await self._inspector.bind(office, wish.effective.sandbox_mode))
        situation.again = None if wish.seconds_left is None else wish.seconds_left + 0.05
        runtime_class, situation.sandbox_fault = await self._runtime_class(wish.effective)
        if situation.refusal is None and office.spec is not None:
            situation.plan = OfficePlan(
                address=office.spec.address,
                uid=office.meta.uid,
                effective=wish.effective,
                vault=situation.binding.vault,
                runtime_class=runtime_class,
                installation=self._installation,
            )
        elif wish.wanted:
            situation.again = RETRY_SECONDS
        return situation

    async def _runtime_class(self, effective: EffectiveOffice) -> tuple[str, State | None]:
        """The RuntimeClass of a mode (empty: the default one), or why the mode can't be had."""
        kind = effective.sandbox_mode.kind
        if kind is SandboxKind.IMAGE:
            return "", None
        if kind not in {SandboxKind.GONDOLIN, SandboxKind.FIRECRACKER}:
            text = f"this installation does not offer sandbox mode {kind.value}"
            return "", false(_SANDBOX, Reason.MODE_UNAVAILABLE, text)
        name = self._inputs().settings.sandbox.runtime_classes.get(kind.value, "")
        if not name:
            text = f"settings sandbox.runtimeClasses has no entry for {kind.value}"
            return "", false(_SANDBOX, Reason.RUNTIME_CLASS_NOT_FOUND, text)
        try:
            await self._store.get(RUNTIME_CLASS, name)
        except NotFound:
            return "", false(_SANDBOX, Reason.RUNTIME_CLASS_NOT_FOUND, f"RuntimeClass {name} does not exist")
        return name, None

    def _pods(self, office: OfficeObject) -> dict[str, PodObject]:
        return {
            pod.component: pod for pod in self._cache.pods.by(office.meta.name) if pod.meta.owner_uid == office.meta.uid
        }

    # -- acting ----------------------------------------------------------------------------------------------------

    async def _act(self, situation: Situation) -> None:
        if situation.plan is None:
            await self._end(situation)
        else:
            await self._run(situation, situation.plan)

    async def _end(self, situation: Situation) -> None:
        """No pods are wanted: delete those there are, unless a session still runs in them."""
        self._crowd.leave(situation.office.meta.name)
        pods = [pod for pod in self._pods(situation.office).values() if not pod.meta.deleting]
        if not pods:
            return
        if situation.wish.busy:
            situation.stale = "ends when the running session does"
            return
        if await self._still_idle(situation):
            for pod in pods:
                await self._children.delete_pod(pod)

    async def _run(self, situation: Situation, plan: OfficePlan) -> None:
        """Pods are wanted: delete what can't serve, make what is missing, refresh what is mounted."""
        office, inputs = situation.office, self._inputs()
        secret = access.token_secret(plan, inputs.keys, office.epoch)
        wanted = {names.COMPONENT_AGENT: agent_pod(plan, access.token_version(secret))}
        if plan.has_sandbox:
            wanted[names.COMPONENT_SANDBOX] = sandbox_pod(plan)
        pods = self._pods(office)
        if await self._clear(situation, pods, wanted):
            return
        missing = {component: manifest for component, manifest in wanted.items() if component not in pods}
        if missing and self._holding(office.meta.name, situation):
            return
        if self._sandbox_waits(situation, pods, missing):
            del missing[names.COMPONENT_SANDBOX]
        await self._children.ensure(plan, inputs.keys, office.epoch, list(missing.values()), running=bool(pods))
        await self._refresh(plan, self._pods(office), access.token_version(secret))

    def _sandbox_waits(self, situation: Situation, pods: dict[str, PodObject], missing: Container[str]) -> bool:
        """Whether a missing sandbox is for later: with many agents on their way, people see answers of agents alone."""
        agent = pods.get(names.COMPONENT_AGENT)
        self._crowd.note(situation.office.meta.name, starting=agent is None or not agent.ready)
        if names.COMPONENT_SANDBOX not in missing or not self._crowd.is_large:
            return False
        situation.look_within(self._crowd.wait)
        return True

    async def _clear(self, situation: Situation, pods: dict[str, PodObject], wanted: dict[str, Manifest]) -> bool:
        """Delete pods that have ended, are of an older making, or not wanted. Returns whether any has to go first."""
        ended = [pod for pod in pods.values() if pod.finished and not pod.meta.deleting]
        for pod in ended:
            await self._replace_failed(situation, pod)
        old = [p for c, p in pods.items() if p not in ended and not p.meta.deleting and _differs(p, wanted.get(c))]
        if old and situation.wish.busy:
            situation.stale = "runs with older settings until the running session ends"
            old = []
        elif old and await self._still_idle(situation):
            for pod in old:
                await self._children.delete_pod(pod)
        remaining = self._pods(situation.office)
        going = [pod for pod in remaining.values() if pod.meta.deleting or pod in ended or pod in old]
        return bool(going)

    async def _replace_failed(self, situation: Situation, pod: PodObject) -> None:
        failures = self._failures.setdefault(situation.office.meta.name, _Failures())
        now = self._clock()
        if failures.last is None or now - failures.last > FORGIVEN_AFTER:
            failures.count = 0
        failures.count, failures.last = failures.count + 1, now
        state = pod_state(ConditionType.READY, pod)
        failures.fault = state.message
        await self._children.delete_pod(pod)
        await self._events.warn(OFFICE, situation.office.meta, [state])

    def _holding(self, key: str, situation: Situation) -> bool:
        """Whether a pod that failed again and again is to be made later only; the first failure costs no wait."""
        failures = self._failures.get(key)
        if failures is None or failures.last is None or failures.count < 2:
            return False
        hold = min(timedelta(seconds=5 * 2 ** min(failures.count - 2, 10)), MAX_HOLD)
        left = (failures.last + hold - self._clock()).total_seconds()
        if left <= 0:
            return False
        text = f"its pods failed {failures.count} times; tried again soon; the last one: {failures.fault}"
        self._block(situation, Reason.POD_FAILED, text, left)
        return True

    async def _refresh(self, plan: OfficePlan, pods: dict[str, PodObject], token_version: str) -> None:
        agent, sandbox = pods.get(names.COMPONENT_AGENT), pods.get(names.COMPONENT_SANDBOX)
        if agent and not agent.meta.deleting and agent.token_version != token_version:
            await self._children.annotate_pod(agent, ANNOTATION_TOKEN_VERSION, token_version)
        version = plan.vault.secret_version if plan.vault else ""
        if sandbox and version and not sandbox.meta.deleting and sandbox.vault_version != version:
            await self._children.annotate_pod(sandbox, names.ANNOTATION_VAULT_VERSION, version)

    async def _still_idle(self, situation: Situation) -> bool:
        """A second look, at the API server itself: a message may have come since the watch last told us."""
        try:
            fresh = OfficeObject.of(await self._store.get(OFFICE, situation.office.meta.name))
        except NotFound:
            return False
        self._cache.offices.put(fresh)
        if fresh.meta.uid != situation.office.meta.uid:
            return False
        wish = decide(fresh, self._inputs().settings, self._clock())
        if wish.busy or wish.wanted != situation.wish.wanted:
            situation.again = 0.0
            return False
        return True

    def _block(self, situation: Situation, reason: Reason, message: str, again: float = RETRY_SECONDS) -> None:
        situation.blocked = false(ConditionType.READY, reason, message)
        situation.look_within(again)

    # -- telling ---------------------------------------------------------------------------------------------------

    async def _publish(self, situation: Situation) -> None:
        office = self._cache.offices.get(situation.office.meta.name)
        if office is None or office.meta.uid != situation.office.meta.uid:
            return
        states = self._states(situation)
        self._count(office.meta.name, states[0].reason.value)
        status = self._status(situation, office, states)
        # The gateway's fields are not ours to write.
        ours = {"last_activity_time": None, "running_sessions": None}
        if status == office.status.model_copy(update=ours):
            return
        fields = {"metadata": {"uid": office.meta.uid}, "status": status.to_json_dict()}
        try:
            made = await self._store.apply(OFFICE, office.meta.name, fields, "status")
        except NotFound:
            self._cache.offices.remove(office.meta.name, office.meta.uid)
            return
        self._cache.offices.put(OfficeObject.of(made))
        await self._events.warn(OFFICE, office.meta, transitions(states, office.status.conditions))

    def _states(self, situation: Situation) -> tuple[State, ...]:
        pods = self._pods(situation.office)
        agent, sandbox = pods.get(names.COMPONENT_AGENT), pods.get(names.COMPONENT_SANDBOX)
        vault = situation.binding.state
        refusal = situation.refusal
        if refusal is not None and not (situation.stale and agent):
            return (
                refusal,
                *(
                    fault or false(kind, refusal.reason)
                    for kind, fault in ((_AGENT, None), (_SANDBOX, situation.sandbox_fault))
                ),
                vault,
            )
        agent_state, sandbox_state = pod_state(_AGENT, agent), pod_state(_SANDBOX, sandbox)
        if refusal is not None:
            vault_for_summary = true(ConditionType.VAULT_READY, Reason.BOUND)
            return (
                summary(agent_state, sandbox_state, vault_for_summary, situation.stale),
                agent_state,
                sandbox_state,
                vault,
            )
        ready = situation.blocked or summary(agent_state, sandbox_state, vault, situation.stale)
        return ready, agent_state, sandbox_state, vault

    def _status(self, situation: Situation, office: OfficeObject, states: tuple[State, ...]) -> OfficeStatus:
        effective = situation.wish.effective
        pods = self._pods(office) if situation.refusal is None or situation.stale else {}
        agent, sandbox = pods.get(names.COMPONENT_AGENT), pods.get(names.COMPONENT_SANDBOX)
        return OfficeStatus(
            observed_generation=office.meta.generation,
            conditions=merge(states, office.status.conditions, office.meta.generation, self._clock()),
            door_policy=EffectiveDoorPolicy.of(effective.door_policy, effective.door_policy_source)
            if effective
            else None,
            llm_model=effective.llm.model if effective else None,
            agent=PodReference(pod_name=agent.meta.name, pod_uid=agent.meta.uid) if agent else None,
            sandbox=PodReference(pod_name=sandbox.meta.name, pod_uid=sandbox.meta.uid) if sandbox else None,
        )

    def _count(self, key: str, reason: str) -> None:
        before = self._reasons.get(key)
        if before == reason:
            return
        if before is not None:
            self._counts[before] -= 1
            metrics.OFFICES.labels(before).set(self._counts[before])
        self._reasons[key] = reason
        self._counts[reason] += 1
        metrics.OFFICES.labels(reason).set(self._counts[reason])

    def _forget(self, key: str, office: OfficeObject | None) -> None:
        self._failures.pop(key, None)
        self._crowd.leave(key)
        if office is not None:
            self._children.forget(office.meta.uid)
        before = self._reasons.pop(key, None)
        if before is not None:
            self._counts[before] -= 1
            metrics.OFFICES.labels(before).set(self._counts[before])


def _differs(pod: PodObject, wanted: Manifest | None) -> bool:
    return wanted is None or pod.baked != wanted["metadata"]["annotations"][names.ANNOTATION_BAKED]
