"""An agent's requests, from its own client to what stands in the conversation and in the cluster: over a real socket,
through cuts and restarts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from event_world import EventGateway, key_of
from gateway_doubles import WireAgent
from mikan_agent.exceptions import RequestFailed
from mikan_agent.gateway_requests import GatewayRequests
from mikan_agent.hosts import GatewayEvents, GatewaySchedules
from mikan_api import names
from mikan_api.base import OpenModel
from mikan_api.events import ImmediateEvent, OneShotEvent, PeriodicEvent
from mikan_api.wire import MAX_REQUESTS, LogBatch, Reply, Request, build_frame

DAILY = PeriodicEvent(conversation_id="C1", text="Report", schedule="0 9 * * *", timezone="Europe/Berlin")
ONCE = OneShotEvent(conversation_id="C1", text="Call Ann", at="2026-03-02T09:00:00Z")
PREFIX = key_of().rpartition("-")[2]


class Client:
    """The agent's requests over whatever connection there is."""

    def __init__(self) -> None:
        self.agent: WireAgent | None = None
        self.requests = GatewayRequests(self._send)
        self.events = GatewayEvents(self.requests)
        self.schedules = GatewaySchedules(self.events)
        self.log: list[str] = []
        self._sending: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def connected(self, gateway: EventGateway) -> AsyncIterator[WireAgent]:
        """A connection that begins with what is unanswered, as the agent's does."""
        async with gateway.agent() as agent:
            await agent.hello(log_number=len(self.log))
            for request in self.requests.pending():
                await agent.socket.send(build_frame(request))
            self.agent = agent
            reading = asyncio.create_task(self._read(agent))
            try:
                yield agent
            finally:
                self.agent = None
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    def _send(self, frame: OpenModel) -> None:
        if self.agent is not None:
            task = asyncio.create_task(self.agent.socket.send(build_frame(frame)))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _read(self, agent: WireAgent) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await agent.receive()
                if isinstance(frame, Reply):
                    self.requests.replied(frame)
                elif isinstance(frame, LogBatch):
                    self.log += [entry.message.text for entry in frame.entries]


@pytest.fixture
async def client(gateway: EventGateway) -> AsyncIterator[Client]:
    """A client that is connected."""
    client = Client()
    async with client.connected(gateway):
        yield client


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)


async def test_a_notice_stands_in_the_conversation_and_in_its_log(gateway: EventGateway, client: Client) -> None:
    assert await client.requests.ask("notify", {"text": "**Done**"}) == {}
    await until(lambda: client.log == ["**Done**"])
    assert gateway.platform.shown() == ["**Done**"]
    [entry] = await gateway.runtime.desk.log_after(key_of(), 0)
    assert (entry.from_bot, entry.message.session_key) == (True, None)


async def test_a_notice_that_is_asked_for_again_stands_once(gateway: EventGateway) -> None:
    request = build_frame(Request(id="r1", method="notify", params={"text": "once"}))
    for restart in (False, False, True):
        if restart:
            await gateway.restart()
        async with gateway.agent() as agent:
            await agent.hello()
            for _ in range(2):
                await agent.socket.send(request)
            assert (await agent.until(Reply)).error is None
    await until(lambda: gateway.platform.shown() == ["once"])
    assert [call[0] for call in gateway.platform.without_working()] == ["post"]


async def test_a_request_is_answered_through_a_cut_and_a_restart(gateway: EventGateway) -> None:
    client = Client()
    asking = asyncio.create_task(client.requests.ask("notify", {"text": "late"}))
    await asyncio.sleep(0)
    async with client.connected(gateway) as agent:
        agent.socket.transport.abort()
    await gateway.restart()
    async with client.connected(gateway):
        assert await asking == {}
    assert client.requests.pending() == []
    await until(lambda: gateway.platform.shown() == ["late"])


async def test_a_file_that_was_brought_is_shown(gateway: EventGateway, client: Client) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"a,b\n"

    await gateway.spool.save_blob(key_of(), "b1", content())
    await client.requests.ask("upload", {"blobId": "b1", "name": "../t.csv", "title": "Table"})
    await until(lambda: ("upload", "t.csv", "Table", "a,b\n") in gateway.platform.calls)
    with pytest.raises(RequestFailed, match="no file was uploaded as 'b2'"):
        await client.requests.ask("upload", {"blobId": "b2", "name": "x"})


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("no-such", {}, "this gateway does not offer 'no-such'"),
        ("notify", {}, "notify: text: Field required"),
        ("notify", {"text": "  "}, "there is no text to post"),
        ("notify", {"text": "x", "conversation": "C2"}, "conversation: Extra inputs are not permitted"),
        ("react", {"messageId": "m", "emoji": "x"}, "console has no reactions here"),
        ("upload", {"blobId": "../x", "name": "x"}, "no file was uploaded"),
        ("history", {"limit": 0}, "history takes"),
        ("events.put", {"name": "Daily", "event": {"type": "immediate", "conversationId": "C1", "text": "t"}}, "name:"),
        ("events.put", {"name": "d", "event": {"type": "immediate", "conversationId": "C2", "text": "t"}}, "its own"),
        ("events.put", {"name": "d", "event": {"type": "hourly"}}, "event: Input tag 'hourly'"),
        ("events.delete", {"name": "a.b"}, "name:"),
        ("events.list", {"owner": "../x"}, "owner:"),
    ],
)
async def test_what_cannot_be_done_is_said_and_the_connection_stands(
    gateway: EventGateway, client: Client, method: str, params: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestFailed) as refused:
        await client.requests.ask(method, params)
    assert said in str(refused.value)
    assert await client.events.list() == ()
    assert gateway.objects.objects == {}


async def test_a_request_that_waits_keeps_no_frame_waiting(gateway: EventGateway, client: Client) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slow(claims: object, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        await gate.wait()
        return {"n": 1}

    gateway.runtime.desk.offer({"slow": slow})
    waiting = asyncio.create_task(client.requests.ask("slow", {}))
    await asked.wait()
    assert await client.events.list() == ()
    gate.set()
    assert await waiting == {"n": 1}


async def test_too_many_requests_at_once_are_refused_and_their_work_ends_with_the_connection(
    gateway: EventGateway,
) -> None:
    ended = 0

    async def stuck(claims: object, request_id: str, params: dict[str, Any]) -> dict[str, Any]:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1
        return {}

    gateway.runtime.desk.offer({"stuck": stuck})
    async with gateway.agent() as agent:
        await agent.hello()
        for number in range(MAX_REQUESTS + 1):
            await agent.socket.send(build_frame(Request(id=f"r{number}", method="stuck")))
        refused = await agent.until(Reply)
        assert (refused.id, refused.error) == (f"r{MAX_REQUESTS}", "too many requests at once; ask again later")
    await until(lambda: ended == MAX_REQUESTS)


async def test_a_gateway_that_does_not_answer_is_said() -> None:
    requests = GatewayRequests(lambda frame: None)
    with pytest.raises(RequestFailed, match="did not answer within 0 s"):
        await requests.ask("notify", {"text": "x"}, seconds=0.01)
    assert requests.pending() == []
    with pytest.raises(RequestFailed, match="too much for one request"):
        await requests.ask("notify", {"text": "x" * 3_000_000})


async def test_an_agents_event_is_an_object_that_goes_with_its_office(gateway: EventGateway, client: Client) -> None:
    await client.events.put("daily", DAILY, must="be-new")
    view = gateway.offices.get(key_of())
    assert view is not None
    made = gateway.objects.objects[f"{PREFIX}.daily"]
    assert made["spec"] == {
        "type": "periodic",
        "platform": "console",
        "conversationId": "C1",
        "conversationKind": "direct",
        "text": "Report",
        "schedule": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "source": "agent",
        "suspend": False,
    }
    assert made["metadata"]["labels"] == {names.LABEL_OFFICE: key_of()}
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "mikan.dev/v1alpha1", "kind": "Office", "name": key_of(), "uid": view.uid}
    ]
    [entry] = await client.events.list()
    assert (entry.name, entry.own, entry.source) == ("daily", True, "agent")


async def test_an_event_is_changed_and_deleted_by_its_name(gateway: EventGateway, client: Client) -> None:
    await client.events.put("daily", DAILY, must="be-new")
    with pytest.raises(RequestFailed, match="there is an event named 'daily' already"):
        await client.events.put("daily", ONCE, must="be-new")
    with pytest.raises(RequestFailed, match="there is no event named 'weekly'"):
        await client.events.put("weekly", ONCE, must="exist")
    await client.events.put("daily", ONCE, must="exist")
    spec = gateway.objects.objects[f"{PREFIX}.daily"]["spec"]
    assert (spec["type"], spec["at"], "schedule" in spec) == ("one-shot", "2026-03-02T09:00:00Z", False)
    await client.events.put("daily", ONCE)
    assert gateway.objects.writes == [("create", f"{PREFIX}.daily"), ("patch", f"{PREFIX}.daily")]
    assert await client.events.delete("daily") is True
    assert await client.events.delete("daily") is False
    assert gateway.objects.objects == {}


async def test_a_long_text_is_listed_in_part_and_stays_whole_when_the_rest_is_changed(
    gateway: EventGateway, client: Client
) -> None:
    long = "Look at this: " + "x" * 5_000
    await client.schedules.upsert("weather", "daily", DAILY.model_copy(update={"text": long}))
    [known] = await client.schedules.list("weather")
    assert known.event.text == long[:2_000]
    weekly = PeriodicEvent(conversation_id="C1", text=known.event.text, schedule="0 9 * * 1", timezone="Europe/Berlin")
    await client.schedules.upsert("weather", "daily", weekly)
    spec = gateway.objects.objects[f"{PREFIX}.weather.daily"]["spec"]
    assert (spec["schedule"], spec["text"]) == ("0 9 * * 1", long)


async def test_the_same_request_again_makes_no_second_event_and_no_error(gateway: EventGateway) -> None:
    params = {"name": "daily", "event": DAILY.to_json_dict(), "must": "be-new"}
    for _ in range(2):
        async with gateway.agent() as agent:
            await agent.hello()
            await agent.socket.send(build_frame(Request(id="r1", method="events.put", params=params)))
            assert (await agent.until(Reply)).error is None
        await gateway.restart()
    assert gateway.objects.writes == [("create", f"{PREFIX}.daily")]


async def test_everybody_elses_events_are_shown_and_never_changed(gateway: EventGateway, client: Client) -> None:
    gateway.objects.put("backup", source="admin", text="Check the backup")
    gateway.objects.put(f"{PREFIX}.mine", source="admin")
    gateway.objects.put("theirs", conversation="C2", source="agent")
    await client.schedules.upsert("weather", "daily", DAILY)
    found = await client.events.list()
    assert [(entry.name, entry.own, entry.source) for entry in found] == [
        (f"{PREFIX}.mine", False, "admin"),
        ("backup", False, "admin"),
    ]
    with pytest.raises(RequestFailed, match="somebody else made"):
        await client.events.put("mine", DAILY)
    with pytest.raises(RequestFailed, match="somebody else made"):
        await client.events.delete("mine")
    assert await client.events.delete("daily") is False
    assert sorted(gateway.objects.objects) == sorted(["backup", f"{PREFIX}.mine", "theirs", f"{PREFIX}.weather.daily"])


async def test_an_extension_sees_and_changes_its_own_only(gateway: EventGateway, client: Client) -> None:
    await client.events.put("daily", DAILY)
    await client.schedules.upsert("weather", "daily", ONCE)
    await client.schedules.upsert("weather", "daily", DAILY)
    await client.schedules.trigger("weather", ImmediateEvent(conversation_id="C1", text="now"))
    [found] = await client.schedules.list("weather")
    assert (found.name, found.event.text, found.event.type) == ("daily", "Report", "periodic")
    assert list(await client.schedules.list("news")) == []
    assert await client.schedules.remove("news", "daily") is False
    assert await client.schedules.remove("weather", "daily") is True
    sources = {name: made["spec"]["source"] for name, made in gateway.objects.objects.items()}
    assert sources.pop(f"{PREFIX}.daily") == "agent"
    [(name, source)] = sources.items()
    assert (name.startswith(f"{PREFIX}.weather.now-"), source) == (True, "extension")


async def test_an_office_has_at_most_a_hundred_events(gateway: EventGateway, client: Client) -> None:
    for number in range(100):
        gateway.objects.put(f"e{number}", source="agent" if number % 2 else "extension")
    gateway.objects.put("backup", source="admin")
    with pytest.raises(RequestFailed, match="100 are the most"):
        await client.events.put("one-more", DAILY)
    del gateway.objects.objects["e1"]
    await client.events.put("one-more", DAILY)
    await client.events.put("one-more", ONCE)


async def test_what_an_extension_triggered_for_nothing_makes_room_for_what_is_new(
    gateway: EventGateway, client: Client
) -> None:
    now = ImmediateEvent(conversation_id="C1", text="Look")
    for _ in range(100):
        await client.schedules.trigger("weather", now)
    with pytest.raises(RequestFailed, match="100 are the most"):
        await client.events.put("one-more", DAILY)
    refused = next(iter(gateway.objects.objects))
    gateway.objects.objects[refused]["status"] = {"lastDelivery": {"id": "x", "result": "QueueFull"}}
    await client.events.put("one-more", DAILY)
    assert refused not in gateway.objects.objects
    with pytest.raises(RequestFailed, match="100 are the most"):
        await client.schedules.trigger("weather", now)


async def test_a_cluster_that_is_away_is_said_and_asked_again_next_time(gateway: EventGateway, client: Client) -> None:
    gateway.objects.unreachable = True
    with pytest.raises(RequestFailed, match="the cluster can't be reached"):
        await client.events.list()
    gateway.objects.unreachable = False
    assert await client.events.list() == ()
