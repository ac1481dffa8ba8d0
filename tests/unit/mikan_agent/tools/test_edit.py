import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_peers.executor import ROOT, MemoryExecutor
from mikan_agent.exceptions import ToolError
from mikan_agent.messages import TextContent
from mikan_agent.tools.edit import EditArguments, EditTool
from mikan_agent.tools.tool import ToolContext
from mikan_agent.uploads import RunUploads


def context(executor: MemoryExecutor) -> ToolContext:
    return ToolContext(executor, ROOT, RunUploads(None, None))  # type: ignore[arg-type]  # edit uploads nothing


async def edited(content: bytes, old: str, new: str) -> tuple[bytes, str]:
    executor = MemoryExecutor({"f": content})
    output = await EditTool().run(EditArguments(path="f", old_text=old, new_text=new), context(executor))
    (part,) = output.content
    assert isinstance(part, TextContent)
    result = executor.files[ROOT / "f"]
    assert isinstance(result, bytes)
    return result, part.text


async def test_the_one_occurrence_is_replaced_and_the_change_is_shown() -> None:
    result, text = await edited(b"a\nb\nc\nd\ne\nf\ng\nh\n", "e", "E\nE2")
    assert result == b"a\nb\nc\nd\nE\nE2\nf\ng\nh\n"
    assert text == "Changed f:\n@@ line 2 @@\n b\n c\n d\n-e\n+E\n+E2\n f\n g\n h"


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\r\nb\r\n", "b\r\n", "x\n", b"a\r\nx\n"),
        (b"a\nb\r\nc\n", "a\nb", "x", b"x\r\nc\n"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        (b"no newline at end", "end", "", b"no newline at "),
        ("ünï\ncode".encode(), "ï\nc", "i c", "üni code".encode()),
    ],
)
async def test_line_ends_and_all_else_stay_as_they_are(content: bytes, old: str, new: str, expected: bytes) -> None:
    assert (await edited(content, old, new))[0] == expected


@pytest.mark.parametrize(
    ("content", "old", "message"),
    [
        (b"abc", "x", "was not found in f"),
        (b"a b a", "a", "occurs 2 times in f"),
        (b"aaa", "aa", "occurs 2 times in f"),
        (b"a\nb\n-\na\r\nb", "a\nb", "occurs 2 times in f"),
        (b"\xff\xfe", "x", "is not UTF-8 text"),
        (b"abc", "b", "the same"),
    ],
)
async def test_what_cannot_be_done_is_explained_and_changes_nothing(content: bytes, old: str, message: str) -> None:
    executor = MemoryExecutor({"f": content})
    with pytest.raises(ToolError, match=message):
        await EditTool().run(EditArguments(path="f", old_text=old, new_text=old), context(executor))
    assert executor.files == {ROOT / "f": content}


async def test_a_huge_change_is_summed_up_instead_of_compared() -> None:
    _, text = await edited(b"x", "x", "\n".join(map(str, range(5000))))
    assert text == "Changed f:\n@@ line 1: 1 lines became 5000 @@"


@given(st.text("ab\n\r", max_size=30), st.text("ab\n\r", min_size=1, max_size=5), st.text("xy\n", max_size=5))
async def test_only_the_found_text_ever_changes(content: str, old: str, new: str) -> None:
    try:
        result, _ = await edited(content.encode(), old, new)
    except ToolError:
        return
    forms = [(old, new), (old.replace("\n", "\r\n"), new.replace("\n", "\r\n"))]
    assert result.decode() in [content.replace(o, n, 1) for o, n in forms]
