"""Which files a model is shown, and which pictures of a long conversation stay."""

import base64
import os
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.messages import ImageContent, TextContent, ToolResultMessage, UserMessage
from mikan_agent.pictures import MAX_ATTACHED, MAX_PICTURE, TAKEN_OUT, PictureRoom, attached_pictures, picture_type
from mikan_api.messaging import Attachment

PNG = b"\x89PNG\r\n\x1a\n" + bytes(10)
WEBP = b"RIFF\0\0\0\0WEBPVP8 "


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + bytes(8), "image/jpeg"),
        (b"GIF89a" + bytes(6), "image/gif"),
        (WEBP, "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg xmlns=", None),
        (b"", None),
    ],
)
def test_a_picture_is_told_from_its_first_bytes(head: bytes, kind: str | None) -> None:
    assert picture_type(head[:12]) == kind


def file(name: str, media_type: str = "image/png", error: str | None = None) -> Attachment:
    return Attachment(id=name, name=name, media_type=media_type, error=error)


def test_attached_pictures_are_shown_whatever_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "1_a.bin").write_bytes(PNG)
    (tmp_path / "2_b.WEBP").write_bytes(WEBP)
    (tmp_path / "3_c.png").write_text("no picture")
    (tmp_path / "4_d.txt").write_bytes(PNG)
    files = [
        file("1_a.bin"),
        file("2_b.WEBP", "application/octet-stream"),
        file("3_c.png"),
        file("4_d.txt", "text/plain"),
    ]
    found = attached_pictures(
        ConfinedDirectory(tmp_path), [*files, file("1_a.bin", error="too large"), file("gone.png")]
    )
    assert found == {
        "1_a.bin": ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png"),
        "2_b.WEBP": ImageContent(data=base64.b64encode(WEBP).decode(), mime_type="image/webp"),
    }


def test_a_picture_that_is_too_large_is_not_shown_and_neither_are_too_many(tmp_path: Path) -> None:
    sizes = {"1.png": MAX_PICTURE + 1, "2.png": MAX_PICTURE, "3.png": MAX_ATTACHED - MAX_PICTURE + 1, "4.png": 100}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(PNG.ljust(size, b"\0"))
    assert list(attached_pictures(ConfinedDirectory(tmp_path), map(file, sizes))) == ["2.png", "4.png"]


def test_what_a_sandbox_puts_in_a_pictures_place_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "secret.png"
    outside.write_bytes(PNG)
    directory = tmp_path / "attachments"
    directory.mkdir()
    (directory / "1.png").symlink_to(outside)
    os.mkfifo(directory / "2.png")
    (directory / "3.png").mkdir()
    assert (
        attached_pictures(ConfinedDirectory(tmp_path).directory("attachments"), map(file, ["1.png", "2.png", "3.png"]))
        == {}
    )


def test_the_newest_pictures_stay() -> None:
    def picture(size: int) -> ImageContent:
        return ImageContent(data="A" * size, mime_type="image/png")

    said = TextContent(text="look")
    old = UserMessage(content=[said, picture(5)], timestamp=1)
    middle = ToolResultMessage(tool_call_id="1", tool_name="read", content=[picture(3), picture(4)])
    new = UserMessage(content=[picture(3)], timestamp=2)
    text = UserMessage(content="text", timestamp=3)
    room = PictureRoom(10)
    fitted = [room.fitted(message) for message in (text, new, middle, old)]
    assert fitted[:3] == [text, new, middle]
    assert fitted[3] == UserMessage(content=[said, TAKEN_OUT], timestamp=1)
    room = PictureRoom(6)
    assert room.fitted(middle).content == [picture(3), TAKEN_OUT]  # type: ignore[union-attr]
