"""Packages of a release, by kubectl with the admin's own rights: brought onto the volume, then written into a list.

The gateway's pod fetches and checks; only when a package is there does an Office, or the overrides of the settings,
name it. Writes are made on what was read, or not at all.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict

from mikan_api import names
from mikan_api.base import ApiModel
from mikan_api.exceptions import InvalidAddress, InvalidSettings
from mikan_api.identity import OfficeAddress, OfficeKey, parse_office_key
from mikan_api.mounted import OVERRIDES_FILE, SETTINGS_FILE
from mikan_api.packages import PackageSource
from mikan_api.settings import merge_leaves, parse_settings
from mikan_cli.exceptions import CliError, PackageUnusable
from mikan_cli.kubectl import Release, call, explain

ATTEMPTS = 5
"""Of a write that somebody else's gets in the way of."""
_ENDED = "command terminated with exit code"
_RIGHTS = (
    "Ask an admin for `create` on pods/exec and `get`, `create` and `patch` on configmaps in the release's namespace, "
    "and for `get` and `patch` on offices in theirs."
)


class PackageReport(ApiModel):
    """A package on the volume, as the gateway tells of it."""

    model_config = ConfigDict(extra="ignore")

    source: str
    slug: str
    commit: str = ""
    secret: str = ""
    extensions: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """An office, by its conversation or by its key."""

    platform: str
    conversation: str

    @property
    def key(self) -> OfficeKey:
        """The office key."""
        try:
            return parse_office_key(self.conversation)
        except InvalidAddress:
            return OfficeAddress.parse(self.platform, self.conversation).key


class Cluster:
    """One release."""

    def __init__(self, release: Release) -> None:
        self._release = release

    async def materialise(self, verb: str, source: PackageSource, archive: bytes = b"") -> PackageReport:
        """Have a package on the volume (``install``, ``update``, or ``put`` with a tar).

        Raises:
            PackageUnusable: it can't be had or used; nothing has changed.
        """
        (report,) = await self._gateway(verb, [str(source)], archive)
        return report

    async def status(self, sources: Sequence[PackageSource]) -> list[PackageReport]:
        """What there is of some packages on the volume.

        Raises:
            PackageUnusable: the gateway can't tell.
        """
        return await self._gateway("status", [str(source) for source in sources]) if sources else []

    async def _gateway(self, verb: str, sources: Sequence[str], stdin: bytes = b"") -> list[PackageReport]:
        arguments = (
            *self._release.namespace_arguments,
            *("exec", *(["--stdin"] if stdin else []), f"deployment/{self._release.name}-gateway"),
            *("--container", "gateway", "--", "python", "-m", "mikan_gateway.packages", verb, "--", *sources),
        )
        code, out, err = await call(arguments, stdin)
        if code and _ENDED in err:
            said = [line for line in err.splitlines() if line.strip() and _ENDED not in line]
            raise PackageUnusable(said[-1] if said else "the gateway could not do it; its pod's log may say why")
        if code:
            raise explain(err, self._release, "run a command in the gateway's pod", _RIGHTS)
        return [PackageReport.model_validate(one) for one in json.loads(out)]

    async def offices_namespace(self) -> str:
        """Where Offices are."""
        path = '{.spec.template.spec.containers[0].env[?(@.name=="MIKAN_OFFICES_NAMESPACE")].value}'
        asked = ("get", "deployment", f"{self._release.name}-gateway", "-o", f"jsonpath={path}")
        out = await self._kubectl("read the gateway's deployment", *asked)
        return out.decode().strip()

    async def everywhere(self) -> tuple[str, ...]:
        """The packages of every office."""
        _, _, packages = await self._settings()
        return packages

    async def here(self, where: Conversation) -> tuple[str, ...]:
        """The packages that an office declares itself."""
        return tuple((await self._office(where)).get("spec", {}).get("packages") or ())

    async def change_here(self, where: Conversation, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """Change an office's list.

        Raises:
            CliError: it could not be read or written.
        """

        async def attempt() -> tuple[str, ...]:
            office = await self._office(where)
            packages = change(tuple(office["spec"].get("packages") or ()))
            patch = {
                "metadata": {"resourceVersion": office["metadata"]["resourceVersion"]},
                "spec": {"packages": list(packages)},
            }
            namespace = await self.offices_namespace()
            return (
                *("patch", f"offices.{names.GROUP}", where.key, "--namespace", namespace),
                *("--type=merge", "--patch", json.dumps(patch)),
            )

        await self._write("change the Office", attempt, namespaced=False)

    async def change_everywhere(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """Change the list of all offices, in the overrides of the settings.

        Raises:
            CliError: it could not be read or written.
        """

        async def attempt() -> tuple[str, ...]:
            settings, overrides, packages = await self._settings()
            document = {**_document(overrides, OVERRIDES_FILE), "packages": list(change(packages))}
            text = json.dumps(document, indent=2)
            _check(_document(settings, SETTINGS_FILE), document)
            if overrides is None:
                # Made, not applied: one that somebody made meanwhile is read first.
                literal = f"--from-literal={OVERRIDES_FILE}={text}"
                return "create", "configmap", self._overrides_name, literal
            patch = {
                "metadata": {"resourceVersion": overrides["metadata"]["resourceVersion"]},
                "data": {OVERRIDES_FILE: text},
            }
            return "patch", "configmap", self._overrides_name, "--type=merge", "--patch", json.dumps(patch)

        await self._write("change the settings' overrides", attempt)

    @property
    def _overrides_name(self) -> str:
        return f"{self._release.name}-settings-overrides"

    async def _settings(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None, tuple[str, ...]]:
        """The settings, their overrides, and the packages that both make."""
        settings = await self._config_map(f"{self._release.name}-settings")
        overrides = await self._config_map(self._overrides_name)
        merged = merge_leaves(_document(settings, SETTINGS_FILE), _document(overrides, OVERRIDES_FILE))
        packages = merged.get("packages") or ()
        return settings, overrides, tuple(map(str, packages)) if isinstance(packages, list) else ()

    async def _config_map(self, name: str) -> dict[str, Any] | None:
        out = await self._kubectl(
            f"read the ConfigMap {name!r}", "get", "configmap", name, "--ignore-not-found", "-o", "json"
        )
        found: dict[str, Any] | None = json.loads(out) if out.strip() else None
        return found

    async def _office(self, where: Conversation) -> dict[str, Any]:
        namespace = await self.offices_namespace()
        arguments = ("get", f"offices.{names.GROUP}", where.key, "--namespace", namespace, "--ignore-not-found")
        code, out, err = await call((*arguments, "-o", "json"))
        if code:
            raise explain(err, self._release, "read Offices", _RIGHTS)
        if not out.strip():
            raise PackageUnusable(
                f"there is no office {where.key} yet",
                "The first message of its conversation makes it. Say hello there.",
            )
        found: dict[str, Any] = json.loads(out)
        return found

    async def _kubectl(self, doing: str, *arguments: str) -> bytes:
        code, out, err = await call((*self._release.namespace_arguments, *arguments))
        if code:
            raise explain(err, self._release, doing, _RIGHTS)
        return out

    async def _write(self, doing: str, attempt: Callable[[], Any], *, namespaced: bool = True) -> None:
        for _ in range(ATTEMPTS):
            arguments = await attempt()
            where = self._release.namespace_arguments if namespaced else ()
            code, _, err = await call((*where, *arguments))
            if not code:
                return
            if "Conflict" not in err and "AlreadyExists" not in err:
                raise explain(err, self._release, doing, _RIGHTS)
        raise CliError(f"could not {doing}: others change it all the time", "Try again.")


def _document(config_map: dict[str, Any] | None, file: str) -> dict[str, object]:
    try:
        document = json.loads(((config_map or {}).get("data") or {}).get(file) or "{}")
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PackageUnusable(f"{file} of the settings is no JSON object", "Look at it with kubectl get configmap.")
    return document


def _check(settings: dict[str, object], overrides: dict[str, object]) -> None:
    try:
        parse_settings(json.dumps(settings), json.dumps(overrides))
    except InvalidSettings as error:
        raise PackageUnusable(f"the settings would not be valid: {error}") from None
