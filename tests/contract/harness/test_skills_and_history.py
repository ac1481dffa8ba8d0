"""What a model is told of skills and of its own past, through the whole agent."""

import json
from pathlib import Path
from typing import Any

from agent_peers.gateway import GatewayPeer
from agent_peers.models import Answer, Call, ModelsPeer, Text, say
from agent_peers.office import ADDRESS, entry, run_request, serving, workspace_in
from mikan_api.responder import RunOutcome

from .conftest import OpenStage


def write_skill(directory: Path, name: str, description: str, body: str) -> None:
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")


def results(request: dict[str, Any]) -> list[str]:
    return [m["content"] for m in request["messages"] if m["role"] == "tool"]


async def test_a_skill_is_in_the_prompt_and_loads_with_its_paths(stage: OpenStage) -> None:
    script = Answer(
        [Text("Let me see."), Call("skill", {"name": "pdf"}, "a", 0), Call("skill", {"name": "no"}, "b", 1)]
    )
    async with stage(script, say("done")) as s:
        write_skill(s.directory / "skills" / "pdf", "pdf", "Reads PDF files.", "Run {baseDir}/read.sh.")
        (s.directory / "skills" / "bad").mkdir()
        (s.directory / "skills" / "bad" / "SKILL.md").write_text("nothing")
        await s.gateway.deliver(run_request("read it"))
        assert (await s.gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        first, second = s.models.requests
        prompt = first["messages"][0]["content"]
        assert "# Skills\n" in prompt
        assert "\n- pdf: Reads PDF files.\n" in prompt
        assert f"\n- {s.directory}/skills/bad: it does not begin with a line '---'\n" in prompt
        where = f"{s.directory}/skills/pdf"
        assert results(second) == [
            f"Instructions of the skill pdf. Paths in it are relative to {where}.\n\nRun {where}/read.sh.",
            "There is no skill 'no'. There are: pdf.",
        ]


async def test_a_skill_and_the_history_need_no_sandbox(tmp_path: Path) -> None:
    script = Answer([Call("history", {"query": "zebra"}, "a", 0), Call("skill", {"name": "x"}, "b", 1)])
    async with ModelsPeer(script, say("done")) as models, GatewayPeer(ADDRESS.key) as gateway:
        gateway.log = [entry("a zebra came by", 1), entry("when was it?", 2)]
        write_skill(Path(workspace_in(tmp_path).office(ADDRESS).skills) / "x", "x", "Does x.", "Do x.")
        # Nothing makes an executor here.
        async with serving(tmp_path, gateway.url, models.url, mode="image:test"):
            await gateway.deliver(run_request("when was it?", log_number=2))
            assert (await gateway.finished("r1")).outcome is RunOutcome.COMPLETED
        assert results(models.requests[1]) == [
            "2026-01-02T03:04:06.000Z chat #1, ada: a zebra came by",
            "Instructions of the skill x. Paths in it are relative to "
            f"{workspace_in(tmp_path).office(ADDRESS).skills}/x.\n\nDo x.",
        ]


async def test_both_tools_say_what_they_take(stage: OpenStage) -> None:
    async with stage(say("hello")) as s:
        await s.gateway.deliver(run_request("hello"))
        await s.gateway.finished("r1")
        tools = {tool["function"]["name"]: tool["function"] for tool in s.models.requests[0]["tools"]}
        history = tools["history"]["parameters"]
        assert sorted(history["properties"]) == ["before", "label", "limit", "query", "session", "source"]
        assert tools["skill"]["parameters"]["required"] == ["name"]
        assert len(json.dumps([tools["history"], tools["skill"]])) < 2_500
