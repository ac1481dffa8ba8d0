"""A group that became a supergroup stays its conversation, in every process from then on."""

import pytest

from mikan_gateway.exceptions import PlatformRefused, StorageUnavailable
from mikan_gateway.platforms.telegram.moves import Moves
from mikan_gateway.platforms.telegram.places import message_ref, native_id, required_id


class MemoryStore:
    """Remembers moves of the groups that have an office."""

    def __init__(self, *offices: str) -> None:
        self.offices, self.rows = offices, dict[str, str]()
        self.failures: list[Exception] = []

    async def all(self) -> dict[str, str]:
        return dict(self.rows)

    async def add(self, conversation: str, current: str) -> bool:
        if self.failures:
            raise self.failures.pop(0)
        if conversation in self.offices:
            self.rows[conversation] = current
        return conversation in self.offices


async def test_a_move_holds_both_ways_and_in_the_next_process() -> None:
    store = MemoryStore("-7")
    moves = Moves(store)
    await moves.note(-7, -1001)
    later = Moves(store)
    await later.load()

    for known in (moves, later):
        assert (known.conversation(-1001), known.chat("-7")) == ("-7", -1001)
        assert (known.conversation(-7), known.conversation(42), known.chat("42")) == ("-7", "42", 42)


async def test_a_group_without_an_office_begins_anew() -> None:
    moves = Moves(MemoryStore())
    await moves.note(-7, -1001)

    assert moves.conversation(-1001) == "-1001"


async def test_a_move_that_cannot_be_stored_is_told_of_in_the_intake_and_not_in_the_way_of_an_answer() -> None:
    store = MemoryStore("-7")
    moves = Moves(store)
    store.failures = [StorageUnavailable("no database"), StorageUnavailable("no database")]

    await moves.noticed(-7, -1001)
    with pytest.raises(StorageUnavailable):
        await moves.note(-7, -1001)
    assert moves.conversation(-1001) == "-1001"
    await moves.noticed(-7, -1001)

    assert moves.conversation(-1001) == "-7"


@pytest.mark.parametrize(("chat", "ref"), [(-7, "5"), (-1001, "5.1001"), (42, "5.-42")])
def test_a_messages_id_names_its_chat_where_that_is_not_the_conversations_own(chat: int, ref: str) -> None:
    assert message_ref(chat, 5, "-7") == ref
    assert native_id(ref, chat, "-7") == 5
    assert native_id(ref, -99, "-7") is None
    with pytest.raises(PlatformRefused):
        required_id(ref, -99, "-7")
