import pytest

from agent_peers.executor import ROOT, MemoryExecutor
from mikan_agent.exceptions import ToolError
from mikan_agent.executor.exceptions import FileMissing
from mikan_agent.executor.ports import FileType
from mikan_agent.messages import ImageContent, TextContent
from mikan_agent.tools import read
from mikan_agent.tools.read import MAX_BYTES, ReadArguments, ReadTool
from mikan_agent.tools.tool import ToolContext, ToolOutput
from mikan_agent.uploads import RunUploads

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def output_of(content: bytes | FileType, **arguments: int) -> ToolOutput:
    executor = MemoryExecutor({"f": content})
    context = ToolContext(executor, ROOT, RunUploads(None, None))  # type: ignore[arg-type]  # read uploads nothing
    return await ReadTool().run(ReadArguments(path="f", **arguments), context)  # type: ignore[arg-type]


async def text_of(content: bytes, **arguments: int) -> str:
    (part,) = (await output_of(content, **arguments)).content
    assert isinstance(part, TextContent)
    return part.text


async def test_a_short_file_comes_whole_without_its_bom() -> None:
    assert await text_of(b"\xef\xbb\xbfa\nb\n") == "a\nb"


async def test_a_part_says_how_to_go_on() -> None:
    numbers = b"\n".join(b"%d" % n for n in range(1, 11))
    assert await text_of(numbers, offset=3, limit=2) == "3\n4\n\n[Lines 3 to 4 of 10. Use offset 5 to go on.]"
    assert await text_of(numbers, offset=9) == "9\n10"


async def test_long_files_are_cut_at_lines_and_long_lines_within() -> None:
    many = await text_of(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 1000)
    assert many.startswith("x" * 99)
    assert many.endswith(f"[Lines 1 to {MAX_BYTES // 100} of 1001. Use offset {MAX_BYTES // 100 + 1} to go on.]")
    assert (await text_of(b"z" * 100_000)).endswith("[line cut: it has 100000 characters]")


async def test_pictures_are_shown() -> None:
    text, image = (await output_of(PNG)).content
    assert text == TextContent(text="Picture, image/png, 28 bytes.")
    assert isinstance(image, ImageContent)
    assert image.mime_type == "image/png"


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a\0b", {}, "is a binary file"),
        (b"a", {"offset": 2}, "beyond the end: f has 1 lines"),
        (FileType.DIRECTORY, {}, "is a directory"),
        (b"x" * 200, {}, "has 200 bytes. Read parts of it"),
        (PNG + bytes(200), {}, "at most 100 can be shown"),
    ],
)
async def test_what_cannot_be_read_is_explained(
    content: bytes | FileType, arguments: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_FILE", 100)
    monkeypatch.setattr(read, "MAX_PICTURE", 100)
    with pytest.raises(ToolError, match=message):
        await output_of(content, **arguments)


async def test_a_missing_file_is_the_sandboxs_word() -> None:
    context = ToolContext(MemoryExecutor(), ROOT, RunUploads(None, None))  # type: ignore[arg-type]
    with pytest.raises(FileMissing, match="/workspace/office/f: no such file"):
        await ReadTool().run(ReadArguments(path="f"), context)


async def test_an_empty_file_is_said_to_be_empty() -> None:
    assert await text_of(b"") == "(the file is empty)"
