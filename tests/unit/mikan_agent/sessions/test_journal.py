"""Reading session files that are whole, old, cut off or damaged."""

import io
import json
from pathlib import Path

import pytest

from mikan_agent.confined import ConfinedDirectory
from mikan_agent.records.exceptions import FileBusy, NotFound
from mikan_agent.records.lines import decode, encode
from mikan_agent.sessions.context import build_context
from mikan_agent.sessions.exceptions import InvalidHeader
from mikan_agent.sessions.journal import Loaded, Problem, load, open_journal

STAMP = "2026-03-01T12-00-00-000Z"
HEADER: dict[str, object] = {
    "type": "session",
    "version": 3,
    "id": "11111111-2222-3333-4444-555555555555",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/workspace/v1-slack-c123-f1bbf4ab194ff2ea",
}


def message(entry_id: str, parent: str | None, text: str, role: str = "user") -> dict[str, object]:
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "timestamp": "2026-01-01T00:00:01.000Z",
        "message": {"role": role, "content": text, "timestamp": 1},
    }


WHOLE = (
    encode(HEADER)
    + encode(message("a", None, "one"))
    + encode(message("b", "a", "zwei ü"))
    + encode(message("c", "b", "three"))
)


def texts(loaded: Loaded) -> list[str]:
    return [getattr(m, "text", "") for m in build_context(loaded.tree.leaf).messages]


def ids(loaded: Loaded) -> list[str]:
    return [entry.id for entry in loaded.tree.entries]


@pytest.fixture
def directory(tmp_path: Path) -> ConfinedDirectory:
    return ConfinedDirectory(tmp_path)


def test_a_whole_file_loads_without_problems() -> None:
    loaded = load(io.BytesIO(WHOLE))
    assert (texts(loaded), ids(loaded), loaded.problems) == (["one", "zwei ü", "three"], ["a", "b", "c"], ())
    assert loaded.header.cwd == HEADER["cwd"]
    assert loaded.torn is None


@pytest.mark.parametrize(
    ("first_line", "reason"),
    [
        (b"", "is empty"),
        (b"{\n", "not JSON"),
        (b"[]\n", "not a JSON object"),
        (b'{"type":"message","id":"a"}\n', "not a session header"),
        (b'{"type":"session","version":3}\n', "has no id"),
        (b'{"type":"session","version":3,"id":7}\n', "has no id"),
        (b'{"type":"session","version":4,"id":"a"}\n', "version 4"),
        (b'{"type":"session","version":"3","id":"a"}\n', "version '3'"),
        (b'{"type":"session","version":true,"id":"a"}\n', "version True"),
        (b'{"type":"session","version":0,"id":"a"}\n', "version 0"),
        (b"\0\0\0\n", "not JSON"),
    ],
)
def test_a_malformed_header_is_an_error_and_the_file_stays(
    directory: ConfinedDirectory, first_line: bytes, reason: str
) -> None:
    content = first_line + encode(message("a", None, "one")) * bool(first_line)
    directory.write("s.jsonl", content)
    for _ in range(2):  # the lock is given back, too
        with pytest.raises(InvalidHeader, match=reason):
            open_journal(directory, "s.jsonl", STAMP)
    assert directory.read("s.jsonl", 10_000) == content
    assert directory.names() == ["s.jsonl"]


def test_a_cut_at_every_byte_of_the_last_line(directory: ConfinedDirectory) -> None:
    start = WHOLE.index(b'{"type":"message","id":"c"')
    for cut in range(start, len(WHOLE) + 1):
        directory.write("s.jsonl", WHOLE[:cut])
        file, loaded = open_journal(directory, "s.jsonl", STAMP)
        whole = cut >= len(WHOLE) - 1
        assert ids(loaded) == (["a", "b", "c"] if whole else ["a", "b"])
        file.append(encode(message("d", ids(loaded)[-1], "four")), durable=True)
        file.close()
        again = load(io.BytesIO(directory.read("s.jsonl", 10_000)))
        assert (ids(again), again.problems) == ([*ids(loaded), "d"], ())
        side = f"s.jsonl.torn-{STAMP}"
        if start < cut and not whole:
            assert loaded.problems == (Problem(4, "the last line was cut off", side),)
            assert directory.read(side, 10_000) == WHOLE[start:cut]
            directory.remove(side)
        assert directory.names() == ["s.jsonl"]


def test_a_tail_of_zeros_is_set_aside(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", WHOLE + b"\0" * 4096)
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    assert texts(loaded) == ["one", "zwei ü", "three"]
    file.close()
    assert directory.read("s.jsonl", 10_000) == WHOLE
    assert directory.read(f"s.jsonl.torn-{STAMP}", 10_000) == b"\0" * 4096


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type":"message","id":"b"', "not JSON: JSONDecodeError"),
        (b'{"type":"message","id":"b"}{"type":"message","id":"c"}', "not JSON: JSONDecodeError"),
        (b'"text"', "not a JSON object"),
        (b"\0\0", "not JSON: JSONDecodeError"),
        (b'{"type":"x","id":"b","v":"\xff"}', "not JSON: UnicodeDecodeError"),
        (b'{"id":"b","parentId":"a"}', "an entry without a type"),
        (b'{"type":"x","parentId":"a"}', "an entry without an id"),
        (b'{"type":"x","id":"","parentId":"a"}', "an entry without an id"),
        (b'{"type":"x","id":5,"parentId":"a"}', "an entry without an id"),
        (b'{"type":"x","id":"a","parentId":null}', "a second entry with id 'a'"),
        (b'{"type":"x","id":"b","v":' + b"[" * 100_000, "not JSON: RecursionError"),
    ],
)
def test_damage_in_the_middle_is_reported_its_bytes_kept_and_the_rest_loads(
    directory: ConfinedDirectory, line: bytes, reason: str
) -> None:
    content = encode(HEADER) + encode(message("a", None, "one")) + line + b"\n" + encode(message("c", "b", "three"))
    directory.write("s.jsonl", content)
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    orphan = Problem(4, "its parent is missing; it hangs on the entry before it")
    assert loaded.problems == (Problem(3, reason), orphan)
    assert texts(loaded) == ["one", "three"]
    file.close()
    assert directory.read("s.jsonl", 1_000_000) == content


def test_no_choice_of_parents_makes_a_cycle() -> None:
    loaded = load(
        io.BytesIO(
            encode(HEADER)
            + encode(message("a", "b", "one"))
            + encode(message("b", "a", "two"))
            + encode(message("c", "c", "three"))
            + encode(message("a", "c", "again"))
        )
    )
    assert texts(loaded) == ["one", "two", "three"]
    assert [problem.line for problem in loaded.problems] == [2, 4, 5]


def test_unknown_types_and_fields_survive_byte_for_byte(directory: ConfinedDirectory) -> None:
    strange = (
        b'{"type":"of_the_future","id":"b","parentId":"a", "n":1.10,'
        b'"big":123456789012345678901234567890,"s":"\\ud800\\u00e9"}\n'
    )
    header = b'{"type":"session","version":3,"id":"x","timestamp":"","cwd":"","extra":{"a": 1.0}}\n'
    content = header + encode(message("a", None, "one")) + strange
    directory.write("s.jsonl", content)
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    file.append(encode(message("c", "b", "two")), durable=False)
    assert loaded.problems == ()
    assert loaded.tree.get("b").raw["big"] == 123456789012345678901234567890
    assert loaded.tree.get("b").raw["s"] == "\ud800é"
    file.close()
    assert directory.read("s.jsonl", 10_000) == content + encode(message("c", "b", "two"))


def test_an_entry_too_large_to_hold_is_kept_and_says_nothing() -> None:
    line = b'{"type":"message","id":"b","parentId":"a","n":' + b"9" * 5000 + b"}\n"
    loaded = load(io.BytesIO(encode(HEADER) + encode(message("a", None, "one")) + line))
    assert texts(loaded) == ["one"]
    assert loaded.tree.get("b").raw == {"type": "message", "id": "b"}


V1 = [
    {"type": "session", "id": "old", "timestamp": "2024-12-03T14:00:00.000Z", "cwd": "/p", "provider": "p", "x": 1},
    {"type": "message", "timestamp": "t1", "message": {"role": "user", "content": "one", "timestamp": 1}},
    {"type": "message", "timestamp": "t2", "message": {"role": "hookMessage", "customType": "h", "content": "hook"}},
    {"type": "message", "timestamp": "t3", "message": {"role": "user", "content": "three", "timestamp": 3}},
    {"type": "compaction", "timestamp": "t4", "summary": "S", "firstKeptEntryIndex": 2, "tokensBefore": 9},
    {"type": "of_the_future", "timestamp": "t5", "content": 1.10},
    {"type": "message", "timestamp": "t6", "message": {"role": "user", "content": "six", "timestamp": 6}},
]


def lines_of(*lines: dict[str, object]) -> bytes:
    return b"".join(encode(line) for line in lines)


def test_version_1_becomes_a_chain_with_its_compaction(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", lines_of(*V1))
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    assert loaded.problems == ()
    assert [e.parent.id if e.parent else None for e in loaded.tree.entries] == [None, *ids(loaded)[:-1]]
    assert [m.role for m in build_context(loaded.tree.leaf).messages] == ["compactionSummary", "custom", "user", "user"]
    file.close()
    first = decode(directory.read("s.jsonl", 10_000).splitlines()[0])
    assert first == V1[0] | {"version": 3}


def test_migration_keeps_the_original_beside_and_happens_once(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", lines_of(*V1))
    file, _ = open_journal(directory, "s.jsonl", STAMP)
    file.append(encode(message("z", None, "new")), durable=True)
    file.close()
    assert directory.names() == ["s.jsonl", f"s.jsonl.v1-{STAMP}"]
    assert directory.read(f"s.jsonl.v1-{STAMP}", 10_000) == lines_of(*V1)
    before = directory.read("s.jsonl", 10_000)
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    file.close()
    assert directory.read("s.jsonl", 10_000) == before
    assert ids(loaded)[-1] == "z"


def test_reading_an_old_file_gives_the_same_ids_as_migrating_it(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", lines_of(*V1))
    read = load(io.BytesIO(lines_of(*V1)))
    file, migrated = open_journal(directory, "s.jsonl", STAMP)
    file.close()
    assert ids(read) == ids(migrated)
    assert len(set(ids(read))) == 6


def test_version_2_renames_its_hook_messages_and_leaves_other_lines_as_they_are(directory: ConfinedDirectory) -> None:
    kept = (
        b'{"type":"message","id":"a","parentId":null, "n":1.10,"message":{"role":"user","content":"x","timestamp":1}}\n'
    )
    hook = message("b", "a", "hook", role="hookMessage")
    directory.write("s.jsonl", encode(HEADER | {"version": 2}) + kept + encode(hook))
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    file.close()
    assert directory.read("s.jsonl", 10_000) == encode(HEADER) + kept + encode(message("b", "a", "hook", role="custom"))
    assert ids(loaded) == ["a", "b"]


def test_a_torn_old_file_migrates_and_sets_its_tail_aside(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", lines_of(*V1) + b'{"type":"mess')
    file, loaded = open_journal(directory, "s.jsonl", STAMP)
    file.close()
    assert loaded.problems == (Problem(8, "the last line was cut off", f"s.jsonl.torn-{STAMP}"),)
    assert directory.read(f"s.jsonl.torn-{STAMP}", 100) == b'{"type":"mess'
    assert len(ids(loaded)) == 6


def test_two_writers_are_refused(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", WHOLE)
    file, _ = open_journal(directory, "s.jsonl", STAMP)
    with pytest.raises(FileBusy):
        open_journal(directory, "s.jsonl", STAMP)
    file.close()
    open_journal(directory, "s.jsonl", STAMP)[0].close()


def test_a_missing_file_says_so(directory: ConfinedDirectory) -> None:
    with pytest.raises(NotFound):
        open_journal(directory, "s.jsonl", STAMP)


def test_every_line_of_a_migrated_file_is_json(directory: ConfinedDirectory) -> None:
    directory.write("s.jsonl", lines_of(V1[0], {}, *V1[1:]) + b'  {"type":"x" }  \n')
    open_journal(directory, "s.jsonl", STAMP)[0].close()
    lines = directory.read("s.jsonl", 10_000).splitlines()
    assert [json.loads(line).get("type") for line in lines] == [V1[0]["type"], None, *(e["type"] for e in V1[1:]), "x"]
