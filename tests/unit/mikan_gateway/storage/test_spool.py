import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway_doubles import key_of
from mikan_api.exceptions import InvalidAddress
from mikan_api.identity import OfficeKey
from mikan_gateway.exceptions import SpoolRefused, StorageFull, StorageUnavailable
from mikan_gateway.storage import spool as spool_module
from mikan_gateway.storage.spool import SpoolDirectory


async def _bytes(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_a_file_appears_whole_under_its_name_alone(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path)
    assert await spool.save_blob(key_of(), "b1", _bytes(b"ab", b"", b"cd")) == 4
    assert spool.blob(key_of(), "b1").read_bytes() == b"abcd"
    assert _files(tmp_path) == [f"blobs/{key_of()}/b1"]


async def test_a_cut_upload_leaves_nothing(tmp_path: Path) -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    spool = SpoolDirectory(tmp_path)
    with pytest.raises(StorageUnavailable):
        await spool.save_blob(key_of(), "b1", cut())
    assert _files(tmp_path) == []


async def test_a_file_over_the_cap_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path, max_file=3)
    with pytest.raises(SpoolRefused) as caught:
        await spool.save_blob(key_of(), "b1", _bytes(b"ab", b"cd"))
    assert caught.value.status == 413
    assert _files(tmp_path) == []


async def test_an_office_with_too_much_waiting_is_refused_and_no_other(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path, max_office=3)
    await spool.save_blob(key_of(), "b1", _bytes(b"abcd"))
    with pytest.raises(SpoolRefused) as caught:
        await spool.save_blob(key_of(), "b2", _bytes(b"x"))
    assert caught.value.status == 507
    assert await spool.save_blob(key_of("C2"), "b2", _bytes(b"x")) == 1


async def test_an_office_may_have_only_so_many_files_waiting_however_small(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path, max_office_files=2)
    for name in ("b1", "b2"):
        await spool.save_blob(key_of(), name, _bytes())
    with pytest.raises(SpoolRefused) as caught:
        await spool.save_blob(key_of(), "b3", _bytes())
    assert caught.value.status == 507
    await spool.discard_blob(key_of(), "b1")
    assert await spool.save_blob(key_of(), "b3", _bytes()) == 0


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a\0b", "x" * 201, "a\n"])
async def test_ids_that_could_leave_the_directory_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpoolRefused):
        SpoolDirectory(tmp_path).blob(key_of(), name)


async def test_an_office_that_is_no_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidAddress):
        SpoolDirectory(tmp_path).attachment(OfficeKey("../../etc"), "passwd")


async def test_a_full_volume_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool_module, "_append", full)
    with pytest.raises(StorageFull, match="enlarge it"):
        await SpoolDirectory(tmp_path).save_attachment(key_of(), "a1", _bytes(b"x"))
    assert _files(tmp_path) == []


async def test_sweeping_removes_old_uploads_and_what_was_broken_off_and_keeps_attachments(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path)
    for name in ("old", "new"):
        await spool.save_blob(key_of(), name, _bytes(b"x"))
    await spool.save_attachment(key_of(), "a1", _bytes(b"x"))
    torn = tmp_path / "blobs" / key_of() / ".0123.part"
    torn.write_bytes(b"torn")
    for path in (spool.blob(key_of(), "old"), spool.attachment(key_of(), "a1"), torn):
        os.utime(path, (1, 1))
    assert await spool.sweep() == 2
    assert _files(tmp_path) == [f"attachments/{key_of()}/a1", f"blobs/{key_of()}/new"]
    await spool.discard_blob(key_of(), "new")
    await spool.discard_blob(key_of(), "new")
    assert _files(tmp_path) == [f"attachments/{key_of()}/a1"]


async def test_sweeping_leaves_a_file_alone_that_is_still_coming_in(tmp_path: Path) -> None:
    swept = []

    async def swept_meanwhile() -> AsyncIterator[bytes]:
        yield b"half"
        swept.append(await spool.sweep())
        yield b"half"

    spool = SpoolDirectory(tmp_path)
    assert await spool.save_attachment(key_of(), "a1", swept_meanwhile()) == 8
    assert swept == [0]


async def test_old_attachments_go_where_the_office_has_asked_for_all_that_it_wants(tmp_path: Path) -> None:
    spool = SpoolDirectory(tmp_path)
    for office in (key_of("C1"), key_of("C2")):
        for name in ("old", "new"):
            await spool.save_attachment(office, name, _bytes(b"x"))
        os.utime(spool.attachment(office, "old"), (1, 1))
    assert await spool.sweep([key_of("C1")]) == 1
    kept = [f"attachments/{key_of('C1')}/new", f"attachments/{key_of('C2')}/new", f"attachments/{key_of('C2')}/old"]
    assert _files(tmp_path) == sorted(kept)
