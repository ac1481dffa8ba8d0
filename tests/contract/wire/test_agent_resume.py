"""The agent's side of the wire: whatever frame a cut falls on, nothing comes twice, nothing is lost, order is kept."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_peers.clock import VirtualClock
from agent_peers.gateway import CutAt, GatewayPeer
from agent_peers.models import Answer, Hold, ModelsPeer, Text, say
from agent_peers.office import ADDRESS, config_in, entry, run_request, serving, workspace_in
from mikan_agent import connection
from mikan_agent.answer_text import AnswerText
from mikan_agent.backoff import Backoff
from mikan_agent.harness import responder
from mikan_agent.outbox import Outbox
from mikan_agent.tokens import TokenFile
from mikan_api.base import OpenModel
from mikan_api.responder import Respond, RunFinished, RunOutcome, RunStarted, Usage
from mikan_api.wire import Ack, Hello, LogBatch, Run

USAGE = Usage(input_tokens=10, output_tokens=5, cost_usd=0.001, model_calls=1)
COMPLETED = RunFinished(outcome=RunOutcome.COMPLETED, usage=USAGE)


class Handler:
    """Does nothing with any frame."""

    def hello(self) -> Hello:
        return Hello(pod_name="p", pod_uid="u", incarnation="i")

    async def receive(self, frame: OpenModel) -> None:
        return None

    async def acknowledged(self, number: int) -> None:
        return None

    def news(self) -> list[OpenModel]:
        return []

    def texts(self) -> list[AnswerText]:
        return []


def log_lines(root: Path) -> list[str]:
    """The office's log, a line each."""
    return Path(workspace_in(root).office(ADDRESS).log).read_text().splitlines()


@pytest.mark.parametrize(
    ("moment", "frame"),
    [("received", n) for n in range(9)] + [("committed", n) for n in range(6)] + [("sent", n) for n in range(10)],
)
async def test_a_cut_at_any_frame_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, frame: int
) -> None:
    # Short answers are streamed too: their frames are among those that a cut may fall on.
    monkeypatch.setattr(responder, "FIRST", 0.0)
    async with ModelsPeer(say("first"), say("second")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("hello", 1), entry("again", 2)]
        gateway.runs = {"r1": run_request("hello", "r1", log_number=1), "r2": run_request("again", "r2", log_number=2)}
        gateway.cut = CutAt(moment, frame)
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.finished("r2")
            await gateway.until(lambda: gateway.log_written == 2)
        assert gateway.seen.operations == [
            ("r1", RunStarted()),
            ("r1", Respond(text="first")),
            ("r1", COMPLETED),
            ("r2", RunStarted()),
            ("r2", Respond(text="second")),
            ("r2", COMPLETED),
        ]
        assert gateway.cut is None
        assert gateway.seen.breaches == []
        assert len(models.requests) == 2
        assert len(log_lines(tmp_path)) == 2


async def test_operations_of_a_time_without_connection_arrive_in_order_afterwards(tmp_path: Path) -> None:
    hold = Hold()
    script = Answer([Text("one "), hold, Text("two")])
    async with ModelsPeer(script) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            await gateway.deliver(run_request())
            await hold.reached.wait()
            gateway.refusal = 503
            gateway.abort()
            hold.release()
            await gateway.until(lambda: not gateway.connected)
            refused = gateway.connections
            while gateway.connections < refused + 3:  # noqa: ASYNC110  the dials of another party
                await asyncio.sleep(0.001)
            gateway.refusal = None
            assert await gateway.finished("r1") == COMPLETED
        assert gateway.operations("r1") == [RunStarted(), Respond(text="one two"), COMPLETED]
        assert gateway.seen.breaches == []


async def test_a_half_open_socket_is_noticed_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_INTERVAL", 0.05)
    monkeypatch.setattr(connection, "PING_TIMEOUT", 0.05)
    async with (
        ModelsPeer(say("answer")) as models,
        GatewayPeer(ADDRESS.key) as gateway,
        serving(tmp_path, gateway.url, models.url),
    ):
        await gateway.until(lambda: bool(gateway.seen.hellos))
        gateway.freeze()
        await gateway.until(lambda: len(gateway.seen.hellos) == 2)
        await gateway.deliver(run_request())
        assert await gateway.finished("r1") == COMPLETED


async def test_streamed_text_is_shown_anew_from_its_start_after_a_cut(tmp_path: Path) -> None:
    first, second = Hold(), Hold()
    script = Answer([Text("one "), first, Text("two "), second, Text("three")])
    async with ModelsPeer(script) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            await gateway.deliver(run_request())
            await gateway.until(lambda: gateway.seen.texts.get("r1") == "one ")
            gateway.abort()
            first.release()
            await gateway.until(lambda: gateway.seen.texts.get("r1") == "one two ")
            second.release()
            await gateway.finished("r1")
        assert [delta.offset for delta in gateway.seen.deltas[:2]] == [0, 0]
        assert gateway.seen.breaches == []


async def test_a_run_that_is_delivered_twice_runs_once(tmp_path: Path) -> None:
    async with ModelsPeer(say("once"), say("next")) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            await gateway.deliver(run_request())
            await gateway.send(Run(run=run_request()))
            await gateway.finished("r1")
            await gateway.send(Run(run=run_request()))
            await gateway.send(Run(run=run_request("next", "r2")))
            await gateway.until(lambda: len(gateway.operations("r2")) == 3)
        assert gateway.operations("r1") == [RunStarted(), Respond(text="once"), COMPLETED]
        assert [request["messages"][-1]["content"] for request in models.requests] == ["hello", "next"]


async def test_hello_names_every_run_whose_end_is_not_acknowledged(tmp_path: Path) -> None:
    hold = Hold()
    async with ModelsPeer(Answer([hold, Text("x")])) as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            await gateway.deliver(run_request())
            await hold.reached.wait()
            gateway.abort()
            await gateway.until(lambda: len(gateway.seen.hellos) == 2)
            hold.release()
            await gateway.finished("r1")
            await gateway.send(Ack(number=99))
            gateway.abort()
            await gateway.until(lambda: len(gateway.seen.hellos) == 3)
        assert [hello.runs for hello in gateway.seen.hellos] == [(), ("r1",), ()]
        assert len({hello.incarnation for hello in gateway.seen.hellos}) == 1


async def test_a_refused_token_is_read_again_at_the_next_dial(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with ModelsPeer() as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.token = "another"
        async with serving(tmp_path, gateway.url, models.url):
            while gateway.connections < 2:  # noqa: ASYNC110  the dials of another party
                await asyncio.sleep(0.001)
            assert gateway.seen.hellos == []
            (tmp_path / "tokens" / "gateway").write_text("another\n")
            await gateway.until(lambda: bool(gateway.seen.hellos))
    assert "it refuses this office's token (401): wrong token" in caplog.text
    assert "a-token-of-this-office" not in caplog.text


async def test_a_frame_outside_the_protocol_closes_the_connection_and_the_agent_dials_again(tmp_path: Path) -> None:
    async with (
        ModelsPeer(say("still here")) as models,
        GatewayPeer(ADDRESS.key) as gateway,
        serving(tmp_path, gateway.url, models.url),
    ):
        await gateway.until(lambda: gateway.connected)
        await gateway.send_raw('{"type": "unheard_of"}')
        await gateway.until(lambda: len(gateway.seen.hellos) == 2)
        await gateway.deliver(run_request())
        assert (await gateway.finished("r1")).outcome is RunOutcome.COMPLETED


@pytest.mark.parametrize(
    ("code", "base"), [(1001, "soon"), (1012, "soon"), (4400, "soon"), (4401, "late"), (4409, "late"), (4429, "late")]
)
async def test_it_dials_soon_after_a_restart_and_late_after_a_refusal(tmp_path: Path, code: int, base: str) -> None:
    clock, outbox = VirtualClock(), Outbox()
    async with GatewayPeer(ADDRESS.key) as gateway:
        config = config_in(tmp_path, gateway.url, "http://unused")
        link = connection.Connection(
            f"{gateway.url}/agent/v1/offices/{ADDRESS.key}",
            TokenFile(config.tokens / "gateway"),
            outbox,
            Handler(),
            clock,
            retry=Backoff(1.0, 1.0),
            refused_retry=Backoff(100.0, 100.0),
        )
        serving_it = asyncio.create_task(link.run())
        await gateway.until(lambda: gateway.connected)
        await gateway.close(code)
        async with asyncio.timeout(5):
            while not clock.slept:  # noqa: ASYNC110  the socket's own tasks are at work
                await asyncio.sleep(0.001)
        serving_it.cancel()
        assert (clock.slept[0] >= 50) == (base == "late")


async def test_log_entries_that_come_twice_are_written_once(tmp_path: Path) -> None:
    async with ModelsPeer() as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("one", 1)]
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: gateway.log_written == 1)
            gateway.log = [entry("one", 1), entry("two", 2), entry("three", 3)]
            await gateway.send(LogBatch(entries=tuple(gateway.log)))
            await gateway.until(lambda: gateway.log_written == 3)
            gateway.abort()
            await gateway.until(lambda: len(gateway.seen.hellos) == 2)
        assert gateway.seen.hellos[1].log_number == 3
        assert len(log_lines(tmp_path)) == 3


async def test_a_gap_in_the_log_is_asked_for_again(tmp_path: Path) -> None:
    async with ModelsPeer() as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            gateway.log = [entry("one", 1)]
            await gateway.add_to_log(entry("two", 2))
            await gateway.until(lambda: gateway.log_written == 2)
        assert gateway.seen.hellos[1].log_number == 0
        assert len(log_lines(tmp_path)) == 2


async def test_entries_that_are_gone_for_good_are_not_waited_for(tmp_path: Path) -> None:
    async with ModelsPeer() as models, GatewayPeer(ADDRESS.key) as gateway:
        async with serving(tmp_path, gateway.url, models.url):
            await gateway.until(lambda: bool(gateway.seen.hellos))
            await gateway.send(LogBatch(entries=(entry("eight", 8),), after=7))
            await gateway.until(lambda: gateway.log_written == 8)
        assert len(gateway.seen.hellos) == 1
        assert [json.loads(line)["number"] for line in log_lines(tmp_path)] == [8]
