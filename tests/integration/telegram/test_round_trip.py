"""From a person's message to the answer that they see, and everything between."""

import asyncio

from mikan_api.responder import Respond, ToolStatus
from servers.telegram.server import TelegramServer
from telegram_agent import Turn
from telegram_world import CountedMessages, Start


async def test_a_private_message_is_answered_in_one_message(telegram: TelegramServer, start: Start) -> None:
    await start()
    ann = telegram.private(42)

    ann.send("hello")

    answer = await ann.answered("You said: hello")
    assert ann.answers == [answer]
    assert answer.reply_to is None


async def test_markdown_is_shown_with_telegrams_own_formatting(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        return "**bold** and `code <b>`\n\n```python\nx < 1\n```"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("format something")

    answer = await ann.answered("bold and code <b>\n\nx < 1")
    assert answer.entities == [
        {"type": "bold", "offset": 0, "length": 4},
        {"type": "code", "offset": 9, "length": 8},
        {"type": "pre", "offset": 19, "length": 5, "language": "python"},
    ]


async def test_an_answer_grows_in_place_while_it_is_written(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.stream("It begins")
        await ann.until(lambda chat: "It begins" in chat.texts)
        await turn.stream(", goes on", offset=len("It begins"))
        await ann.until(lambda chat: "It begins, goes on" in chat.texts)
        return "It begins, goes on and ends."

    await start(play=play)
    ann = telegram.private(42)

    ann.send("tell me")

    answer = await ann.answered("It begins, goes on and ends.")
    assert ann.answers == [answer]
    assert answer.history == ["It begins", "It begins, goes on", "It begins, goes on and ends."]


async def test_a_long_turn_shows_a_placeholder_and_typing_and_then_the_answer_in_its_place(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        await turn.do(ToolStatus(call_id="1", label="ls -l"))
        await ann.until(lambda chat: "⚙ ls -l" in chat.texts)
        return "Nothing there."

    await start(play=play)
    ann = telegram.private(42)

    ann.send("look")

    answer = await ann.answered("Nothing there.")
    assert ann.answers == [answer]
    assert answer.history[0] == "⚙ ls -l"
    assert [action for _, action, _ in ann.room.actions][:1] == ["typing"]


async def test_typing_ends_with_the_run(telegram: TelegramServer, start: Start) -> None:
    gateway = await start()
    ann = telegram.private(42)
    ann.send("hello")
    await ann.answered("You said: hello")

    await gateway.stop()

    assert gateway.platform._typing._tasks == {}


async def test_an_answer_longer_than_a_message_stands_in_several_with_their_tags_balanced(
    telegram: TelegramServer, start: Start
) -> None:
    lines = [f"line {number} of <code> & more" for number in range(400)]

    async def play(turn: Turn) -> str:
        return "**All of it:**\n\n```go\n" + "\n".join(lines) + "\n```\n\nThe *end*."

    await start(play=play)
    ann = telegram.private(42)

    ann.send("everything")

    await ann.until(lambda chat: chat.texts and chat.texts[-1].endswith("The end."))
    assert len(ann.answers) == 4
    assert all(any(e["type"] == "pre" and e["language"] == "go" for e in m.entities) for m in ann.answers)
    assert "\n".join(ann.texts).replace("All of it:\n\n", "").replace("\n\nThe end.", "").split("\n") == lines


async def test_html_that_telegram_refuses_is_shown_as_plain_text(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        return "**a** < b"

    telegram.faults.add("sendMessage", "unparsable")
    await start(play=play)
    ann = telegram.private(42)

    ann.send("compare")

    answer = await ann.answered("a < b")
    assert answer.entities == []
    assert ann.answers == [answer]


async def test_stop_ends_a_run_that_is_under_way(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str | None:
        await turn.stream("I think")
        await turn.stopped.wait()
        return None

    await start(play=play)
    ann = telegram.private(42)
    ann.send("think hard")
    await ann.until(lambda chat: "I think" in chat.texts)

    ann.send("stop")

    await ann.answered("Stopped.")
    await ann.answered("I think\n\n(Stopped.)")


async def test_messages_of_one_chat_are_answered_one_after_another(telegram: TelegramServer, start: Start) -> None:
    at_once: list[int] = []
    running = 0

    async def play(turn: Turn) -> str:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.01)
        running -= 1
        return f"answer to {turn.text}"

    await start(play=play)
    ann = telegram.private(42)

    for number in range(5):
        ann.send(f"question {number}")

    await ann.until(lambda chat: len(chat.texts) == 5)
    assert ann.texts == [f"answer to question {number}" for number in range(5)]
    assert at_once == [1] * 5


async def test_a_command_is_carried_out_and_answered(telegram: TelegramServer, start: Start) -> None:
    await start()
    ann = telegram.private(42)

    ann.send("/login")

    await ann.answered("/login is not available: this installation has no portal to open.")


async def test_the_commands_of_the_manifest_are_offered(telegram: TelegramServer, start: Start) -> None:
    await start()
    ann = telegram.private(42)
    ann.send("hello")
    await ann.answered("You said: hello")

    names = {scope: [c["command"] for c in commands] for scope, commands in telegram.world.commands.items()}
    assert names == {
        "all_private_chats": ["login", "session", "new", "model", "sandbox", "stop"],
        "all_group_chats": ["new", "model", "sandbox", "auto_reply", "stop"],
    }


async def test_edits_and_other_bots_are_noted_and_channels_and_service_messages_not_even_that(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    gateway = await start(around=seen.around)
    ann = telegram.private(42)
    first = ann.send("hello")
    await ann.answered("You said: hello")

    ann.edit(first, "stop")
    ann.channel_post("news")
    ann.as_bot("stop")
    ann.join()
    ann.send("the end")

    await ann.answered("You said: the end")
    assert seen.texts == ["hello", "[Edited message 1] stop", "stop", "the end"]
    assert ann.texts == ["You said: hello", "You said: the end"]
    noted = [text for text in await gateway.logged("42") if not text.startswith("You said")]
    assert noted == seen.texts


async def test_what_is_no_text_is_answered_too(telegram: TelegramServer, start: Start) -> None:
    await start()
    ann = telegram.private(42)

    ann.special(contact={"phone_number": "+4930", "first_name": "Bob"})
    ann.voice(b"spoken", 12)
    ann.sticker(b"drawn", "😀")
    ann.special(hologram={"of": "a cat"})

    await ann.until(lambda chat: len(chat.texts) == 4)
    assert ann.texts == [
        "You said: [Contact: Bob, +4930]",
        "You said: [Voice message, 12 s]",
        "You said: [Sticker 😀]",
        "You said: [Something that I can't read: hologram]",
    ]


async def test_a_quote_and_a_forward_reach_the_agent_as_such(telegram: TelegramServer, start: Start) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    ann = telegram.private(42)
    ann.send("hello")
    answer = await ann.answered("You said: hello")

    ann.special(reply_to=answer.id, text="why?", quote={"text": "said", "position": 4, "is_manual": True})
    origin = {"type": "hidden_user", "date": 1_700_000_000, "sender_user_name": "Eve"}
    ann.special(text="/new", forward_origin=origin)

    await ann.until(lambda chat: len(chat.texts) == 3)
    assert seen.texts[1:] == ["You wrote:\n> said\n\nwhy?", "[Forwarded from Eve]\n/new"]


async def test_a_run_with_two_answers_shows_the_second_in_place_of_the_first(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        await turn.do(Respond(text="first"))
        await ann.answered("first")
        return "second"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("go")

    answer = await ann.answered("second")
    assert ann.answers == [answer]


async def test_a_deleted_placeholder_is_replaced_by_another_message(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        await turn.stream("soon")
        await ann.until(lambda chat: "soon" in chat.texts)
        ann.delete(ann.answers[0])
        return "here it is"

    await start(play=play)
    ann = telegram.private(42)

    ann.send("go")

    await ann.answered("here it is")
    assert ann.texts == ["here it is"]


async def test_who_can_be_answered_no_more_is_given_up_and_keeps_nobody_waiting(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        if turn.text == "bye":
            ann.person.blocked = True
        return f"You said: {turn.text}"

    gateway = await start(play=play)
    ann, bob = telegram.private(42), telegram.private(43, "Bob", "bob")
    ann.send("bye")
    ann.send("stop")
    bob.send("hello")
    await bob.answered("You said: hello")
    async with asyncio.timeout(10):
        while len(gateway.refused) < 2:  # noqa: ASYNC110  refusals have nobody to tell
            await asyncio.sleep(0.01)
    tried = len(telegram.called("sendMessage"))

    await gateway.restart()
    ann.person.blocked = False
    ann.send("back again")

    await ann.answered("You said: back again")
    assert ann.texts == ["You said: back again"]
    assert gateway.refused == ["answer", "answer"]
    assert len(telegram.called("sendMessage")) == tried + 1
