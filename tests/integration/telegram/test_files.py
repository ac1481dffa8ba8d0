"""Photos and documents, both ways."""

import re

import pytest

from mikan_api.responder import Upload
from mikan_gateway.platforms.telegram.files import TOO_LARGE
from mikan_gateway.runtime.clock import SystemClock
from servers.telegram.server import TelegramServer
from telegram_agent import Turn
from telegram_world import Start

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d4944415478da63fcffff3f0300050001ff5ea6d5d50000000049454e44ae426082"
)


async def receive(turn: Turn) -> str:
    """Say what came."""
    lines = [turn.text]
    for file in turn.request.event.message.attachments:
        shown = file.error
        if shown is None:
            content = await turn.attachment(file.id)
            shown = f"{file.size} bytes: {'PNG' if content == PNG else content.decode()}"
        lines.append(f"{file.original_name} ({file.media_type}) {shown}")
    return "\n".join(lines)


async def test_a_document_reaches_the_agent_with_its_caption(telegram: TelegramServer, start: Start) -> None:
    await start(play=receive)
    ann = telegram.private(42)

    ann.send_file("notes.txt", b"remember", caption="keep this")

    await ann.answered("keep this\nnotes.txt (text/plain) 8 bytes: remember")


async def test_of_a_photo_the_largest_size_reaches_the_agent(telegram: TelegramServer, start: Start) -> None:
    await start(play=receive)
    ann = telegram.private(42)

    ann.send_file("", PNG, photo=True)

    await ann.answered(f"photo.jpg (image/jpeg) {len(PNG)} bytes: PNG")


async def test_names_of_files_are_harmless_and_unique(telegram: TelegramServer, start: Start) -> None:
    names: list[str] = []

    async def play(turn: Turn) -> str:
        names.extend(file.name for file in turn.request.event.message.attachments)
        return str(len(names))

    await start(play=play)
    ann = telegram.private(42)

    ann.send_file("../../etc/$(id).sh", b"1")
    ann.send_file("../../etc/$(id).sh", b"2")

    await ann.answered("2")
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"[0-9]+_[12]_0__.._etc___id_.sh", name) for name in names)


@pytest.mark.parametrize("declared", [20 * 1024 * 1024 + 1, 200 * 1024 * 1024])
async def test_a_file_that_a_bot_may_not_fetch_is_named_and_the_run_starts(
    telegram: TelegramServer, start: Start, declared: int
) -> None:
    await start(play=receive)
    ann = telegram.private(42)

    ann.send_file("film.mkv", b"...", caption="watch", media_type="video/x-matroska", declared=declared)

    await ann.answered(f"watch\nfilm.mkv (video/x-matroska) {TOO_LARGE}")
    assert telegram.called("file") == []


async def test_a_download_that_breaks_off_is_tried_again(telegram: TelegramServer, start: Start) -> None:
    telegram.faults.add("getFile", "error")
    telegram.faults.add("file", "cut")
    await start(play=receive)
    ann = telegram.private(42)

    ann.send_file("notes.txt", b"remember")

    await ann.answered("notes.txt (text/plain) 8 bytes: remember")


async def test_a_link_that_has_expired_is_asked_for_again(telegram: TelegramServer, start: Start) -> None:
    telegram.faults.add("file", "expired")
    await start(play=receive)
    ann = telegram.private(42)

    ann.send_file("notes.txt", b"remember")

    await ann.answered("notes.txt (text/plain) 8 bytes: remember")
    assert len(telegram.called("getFile")) == 2


async def test_an_album_is_one_message_with_all_its_pictures(telegram: TelegramServer, start: Start) -> None:
    await start(play=receive, clock=SystemClock())
    ann = telegram.private(42)

    ann.album((PNG, ""), (PNG, "which is best?"), (PNG, ""))
    ann.send("tell me")

    await ann.until(lambda chat: len(chat.texts) == 2)
    assert ann.texts[0].startswith("which is best?\n")
    assert ann.texts[0].count("photo.jpg (image/jpeg)") == 3
    assert ann.texts[1] == "tell me"


async def test_pictures_of_an_album_that_come_late_and_a_crash_lose_and_double_nothing(
    telegram: TelegramServer, start: Start
) -> None:
    gateway = await start(play=receive, clock=SystemClock())
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")
    first, *rest = ann.album((PNG, "which?"), (PNG, ""), (PNG, ""), told=False)

    ann.tell(first)
    bob.send("hello")
    await bob.answered("hello")
    ann.tell(rest[0])
    await gateway.stop()
    assert len([u for u in telegram.world.updates if "photo" in u["message"]]) == 2
    ann.tell(rest[1])
    await gateway.start()

    await ann.until(lambda chat: chat.texts)
    assert ann.texts[0].count("photo.jpg (image/jpeg)") == 3
    assert (len(ann.texts), bob.texts) == (1, ["hello"])


async def test_a_document_is_sent_with_its_name_and_title(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.put("b1", b"a,b\n1,2\n")
        await turn.do(Upload(blob_id="b1", name="table.csv", title="the **table**", media_type="text/csv"))
        return "done"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("export")

    await ann.answered("done")
    sent = next(m for m in ann.answers if m.file)
    assert sent.file is not None
    assert (sent.file.name, sent.file.content, sent.photo) == ("table.csv", b"a,b\n1,2\n", False)
    assert (sent.caption, sent.entities) == ("the table", [{"type": "bold", "offset": 4, "length": 5}])


async def test_an_image_is_sent_as_a_photo(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.put("b1", PNG)
        await turn.do(Upload(blob_id="b1", name="plot.png", media_type="image/png"))
        return "done"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("draw")

    await ann.answered("done")
    assert [m.photo for m in ann.answers if m.file] == [True]


async def test_what_is_no_photo_after_all_is_sent_as_a_document(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.put("b1", b"not an image")
        await turn.do(Upload(blob_id="b1", name="plot.png", media_type="image/png"))
        return "done"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("draw")

    await ann.answered("done")
    assert [(m.photo, m.file.name) for m in ann.answers if m.file] == [(False, "plot.png")]
