"""A models endpoint that answers by what is asked: so a chat message tells every process what to do."""

import asyncio
from typing import Any

from agent_peers.models import Answer, Call, Hold, JsonObject, ModelsPeer, Refuse, Text
from durability_agent import PICTURE, REPORT


class PlayedModels(ModelsPeer):
    """The endpoint. The first word of a message says how it is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.script = _Plays(self.requests)


class _Pause(Hold):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def wait(self) -> None:
        await asyncio.sleep(self._seconds)


def _answer(request: JsonObject) -> Answer:
    """What the model says; a pause is as long as it takes for a draft to be shown."""
    last = request["messages"][-1]
    asked = next(m["content"] for m in reversed(request["messages"]) if m["role"] == "user").split("\n")[0]
    if last["role"] == "tool":
        return Answer([] if asked == "silently" else [Text("done")])
    match asked.split()[0]:
        case "slowly":
            return Answer([Text("You "), _Pause(0.15), Text("said: "), _Pause(0.15), Text(asked)])
        case "silently":
            return Answer([_Pause(0.5), Call("read", {"path": REPORT})])
        case "attach":
            return Answer([Call("attach", {"path": REPORT})])
        case "depict":
            return Answer([Call("attach", {"path": PICTURE})])
        case "remind":
            later = {"action": "create", "name": "later", "text": "tick", "inSeconds": 86_400}
            return Answer([Call("event", later)])
        case "for-ever":
            return Answer([Text("on and on"), _Pause(3600)])
        case _:
            return Answer([Text(f"You said: {asked}")])


class _Plays(list[Answer | Refuse]):
    """A script without end."""

    def __init__(self, requests: list[JsonObject]) -> None:
        super().__init__()
        self._requests = requests

    def __bool__(self) -> bool:
        return True

    def pop(self, _index: Any = -1) -> Answer:
        return _answer(self._requests[-1])
