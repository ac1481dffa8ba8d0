"""What happened in a conversation while nobody asked reaches the model once, whatever the process goes through."""

from pathlib import Path

from agent_peers.gateway import GatewayPeer
from agent_peers.models import Answer, Hold, ModelsPeer, Text, say
from agent_peers.office import ADDRESS, entry, run_request, serving
from mikan_api.messaging import LogEntry
from mikan_api.session_keys import SessionKey
from mikan_api.wire import Reset

STAMP = "[2026-01-02T03:04:{:02}.000Z]"


def posted(text: str, number: int, session: str) -> LogEntry:
    """A message of ours, that a run of a session posted."""
    found = entry(text, number)
    message = found.message.model_copy(update={"session_key": SessionKey(session)})
    return LogEntry(number=number, message=message, from_bot=True)


def told(models: ModelsPeer) -> list[str]:
    """What the last model call had to read, without the prompt; of what was quoted only the lines."""
    contents = [str(m["content"]) for m in models.requests[-1]["messages"][1:]]
    return [line for content in contents for line in content.splitlines() if not line.endswith(":")]


async def test_others_messages_are_told_before_the_next_run_and_own_answers_are_not(tmp_path: Path) -> None:
    async with ModelsPeer(say("a1"), say("a2"), say("a3")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("q1", 1), posted("a1", 2, "room"), entry("lunch?", 3), entry("q2", 4)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("q1", "r1", log_number=1))
            await gateway.finished("r1")
            await gateway.deliver(run_request("q2", "r2", log_number=4))
            await gateway.finished("r2")
        assert told(models) == ["q1", "a1", f"{STAMP.format(8)} ada: lunch?", "q2"]
        gateway.log += [posted("a2", 5, "room"), posted("the report", 6, "room:m6"), entry("q3", 7)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("q3", "r3", log_number=7))
            await gateway.finished("r3")
        report = f"{STAMP.format(11)} ada (bot): the report"
        assert told(models) == ["q1", "a1", f"{STAMP.format(8)} ada: lunch?", "q2", "a2", report, "q3"]


async def test_messages_that_wait_for_their_own_run_are_not_told_before_it(tmp_path: Path) -> None:
    async with ModelsPeer(say("a1"), say("a2")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("q1", 1), entry("q2", 2), entry("lunch?", 3)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("q1", "r1", log_number=1))
            await gateway.deliver(run_request("q2", "r2", log_number=2))
            await gateway.finished("r2")
        assert told(models) == ["q1", "a1", "q2"]


async def test_a_scheduled_event_hears_what_was_there_when_it_was_queued(tmp_path: Path) -> None:
    async with ModelsPeer(say("a1"), say("a2")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("lunch?", 1), entry("q1", 2)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("look around", "r1", log_number=1, scheduled=True))
            await gateway.deliver(run_request("q1", "r2", log_number=2))
            await gateway.finished("r2")
        assert told(models) == [f"{STAMP.format(6)} ada: lunch?", "look around", "a1", "q1"]


async def test_a_new_thread_waits_for_the_answer_before_it_and_hears_it_once(tmp_path: Path) -> None:
    answer = Answer([Text("It is "), hold := Hold(), Text("at ten.")])
    async with ModelsPeer(answer, say("a2"), say("a3")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("when?", 1), entry("in UTC, please", 2)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("when?", "r1", log_number=1))
            await hold.reached.wait()
            await gateway.deliver(run_request("in UTC, please", "r2", log_number=2, session_key="room:m1"))
            await gateway.round_trip()
            hold.release()
            await gateway.finished("r1")
            shown = posted("It is at ten.", 3, "room")
            message = shown.message.model_copy(update={"thread_id": "m1"})
            await gateway.add_to_log(shown.model_copy(update={"message": message}))
            await gateway.finished("r2")
            first = [f"{STAMP.format(6)} ada: when?", f"{STAMP.format(8)} ada (bot): It is at ten.", "in UTC, please"]
            assert told(models) == first
            await gateway.add_to_log(entry("thanks", 4))
            await gateway.deliver(run_request("thanks", "r3", log_number=4, session_key="room:m1"))
            await gateway.finished("r3")
        assert told(models) == [*first, "a2", "thanks"]


async def test_after_a_reset_nothing_from_before_it_is_told(tmp_path: Path) -> None:
    async with ModelsPeer(say("a1"), say("a2")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("q1", 1), entry("lunch?", 2), entry("/new", 3), entry("coffee?", 4), entry("q2", 5)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.deliver(run_request("q1", "r1", log_number=1))
            await gateway.finished("r1")
            await gateway.send(Reset(id="n1", session_key=SessionKey("room"), log_number=3))
            await gateway.until(lambda: any(answer.id == "n1" for answer in gateway.seen.answers))
            await gateway.deliver(run_request("q2", "r2", log_number=5))
            await gateway.finished("r2")
        assert told(models) == [f"{STAMP.format(9)} ada: coffee?", "q2"]
