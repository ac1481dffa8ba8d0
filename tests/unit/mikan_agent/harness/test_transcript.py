"""Bringing a transcript up to date gives what building it anew would."""

import json
from pathlib import Path

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.harness.openai_form import build_messages
from mikan_agent.harness.transcript import Transcript
from mikan_agent.messages import AssistantMessage, ImageContent, TextContent, ToolCall, ToolResultMessage, UserMessage
from mikan_agent.pictures import KEPT
from mikan_agent.sessions.session import Session
from mikan_agent.sessions.store import SessionStore
from mikan_api.session_keys import parse_session_key


async def opened(directory: Path) -> Session:
    return await SessionStore(ConfinedDirectory(directory), "/workspace").open(parse_session_key("room"))


def decoded(transcript: Transcript) -> list[object]:
    return [json.loads(message) for message in transcript.encoded()]


async def test_it_follows_a_session_through_turns_branches_and_summaries(tmp_path: Path) -> None:
    async with await opened(tmp_path) as session:
        transcript = Transcript(session)

        def check() -> None:
            assert decoded(transcript) == build_messages(session.context().messages)

        check()
        await session.append_message(UserMessage(content="one", timestamp=1))
        check()
        await session.append_message(AssistantMessage(content=[ToolCall(id="a", name="read")]))
        picture = ImageContent(data="AA", mime_type="image/png")
        await session.append_message(ToolResultMessage(tool_call_id="a", tool_name="read", content=[picture]))
        check()
        kept = await session.append_message(AssistantMessage(content=[TextContent(text="two")]))
        await session.append_message(UserMessage(content="three", timestamp=2))
        check()
        await session.append_compaction("much was said", kept, 100)
        check()
        await session.append_message(AssistantMessage(content=[TextContent(text="four")]))
        check()
        session.branch(kept)
        await session.append_message(UserMessage(content="five", timestamp=3))
        check()
        session.branch(None)
        check()


async def test_only_what_is_new_is_encoded(tmp_path: Path) -> None:
    async with await opened(tmp_path) as session:
        transcript = Transcript(session)
        await session.append_message(UserMessage(content="one", timestamp=1))
        first = transcript.encoded()[0]
        await session.append_message(UserMessage(content="two", timestamp=2))
        assert transcript.encoded()[0] is first
        assert decoded(transcript)[1] == {"role": "user", "content": "two"}


async def test_a_lone_surrogate_is_replaced(tmp_path: Path) -> None:
    async with await opened(tmp_path) as session:
        await session.append_message(UserMessage(content="a\ud800b", timestamp=1))
        assert decoded(Transcript(session)) == [{"role": "user", "content": "a?b"}]


async def test_older_pictures_are_taken_out_once_there_are_twice_as_many_as_may_stay(tmp_path: Path) -> None:
    picture = ImageContent(data="A" * (KEPT // 2), mime_type="image/png")
    async with await opened(tmp_path) as session:
        transcript = Transcript(session)
        shown = []
        for number in range(6):
            await session.append_message(UserMessage(content=[picture], timestamp=number))
            shown.append(sum(b"base64" in message for message in transcript.encoded()))
        assert shown == [1, 2, 3, 4, 2, 3]
        assert b"A picture was here" in transcript.encoded()[0]
        assert sum(b"base64" in message for message in Transcript(session).encoded()) == 2
