"""Groups: when the bot is meant, which session a message belongs to, topics, and who is let in."""

from mikan_api.identity import Platform
from mikan_api.messaging import ConversationKind, TrustModel
from mikan_api.settings import Admission, Settings
from servers.telegram.server import TelegramServer
from servers.telegram.user import Chat
from telegram_agent import Turn
from telegram_world import CountedMessages, Start


def team(telegram: TelegramServer, forum: bool = False) -> Chat:
    return telegram.people.group(1, telegram.people.person(42), forum=forum)


async def test_a_mention_is_answered_in_reply_and_the_mention_is_not_part_of_the_question(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    group = team(telegram)

    asked = group.send("😀 hi @Mikan_Bot what about @bob_smith?")

    answer = await group.answered("You said: 😀 hi what about @bob_smith?")
    assert answer.reply_to == asked.id
    message = seen.messages[0]
    assert message.event.message.text == "😀 hi what about <@bob_smith>?"
    assert message.event.session_key == f"{group.id}:{asked.id}"
    assert message.event.conversation_kind is ConversationKind.SHARED


async def test_what_is_not_for_the_bot_is_logged_and_not_answered(telegram: TelegramServer, start: Start) -> None:
    gateway = await start()
    group = team(telegram)
    group.send("just talking")
    group.send("/weather@other_bot today")
    group.send("mail me@mikan_bot.org")

    group.send("@mikan_bot now")

    await group.answered("You said: now")
    assert len(group.answers) == 1
    assert (await gateway.logged(group.id))[:4] == [
        "just talking",
        "/weather@other_bot today",
        "mail me@mikan_bot.org",
        "now",
    ]


async def test_a_reply_to_the_bot_is_for_the_bot_and_belongs_to_the_message_replied_to(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    group = team(telegram)
    group.send("@mikan_bot one")
    first = await group.answered("You said: one")

    second = group.send("two", reply_to=first.id)

    answer = await group.answered("You said: two")
    assert answer.reply_to == second.id
    assert seen.session_keys[1] == f"{group.id}:{first.id}"
    assert seen.messages[1].event.message.thread_id == str(first.id)


async def test_a_reply_to_somebody_else_needs_a_mention(telegram: TelegramServer, start: Start) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    group = team(telegram)
    root = group.send("who knows?")
    group.send("not me", reply_to=root.id)

    group.send("ask @mikan_bot", reply_to=root.id)

    await group.until(lambda chat: len(chat.answers) == 1)
    assert seen.texts[1:] == ["Ann wrote:\n> who knows?\n\nnot me", "Ann wrote:\n> who knows?\n\nask"]
    assert [m.triggered for m in seen.messages] == [False, False, True]
    assert seen.session_keys == [f"{group.id}:{root.id}"] * 3
    assert len(group.answers) == 1


async def test_commands_named_for_the_bot_lose_its_name_and_take_the_manifests_spelling(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    group = team(telegram)

    group.send("/auto_reply@mikan_bot status")
    group.send("/pi_model")

    await group.until(lambda chat: len(chat.answers) == 2)
    assert seen.texts == ["/auto-reply status", "/pi-model"]
    assert group.answers[0].reply_to == 1


async def test_stop_in_reply_to_the_bots_own_message_stops_the_run_behind_it(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> None:
        await turn.stream("I think")
        await turn.stopped.wait()

    await start(play=play)
    group = team(telegram)
    group.send("@mikan_bot think")
    await group.until(lambda chat: "I think" in chat.texts)

    group.send("stop", reply_to=group.answers[0].id)

    await group.answered("Stopped.")
    await group.answered("I think\n\n(Stopped.)")


async def test_answers_stay_in_the_topic_of_their_question(telegram: TelegramServer, start: Start) -> None:
    seen = CountedMessages()
    await start(around=seen.around)
    group = team(telegram, forum=True)
    topic = group.open_topic("builds")

    asked = group.send("@mikan_bot status?", topic=topic)

    answer = await group.answered("You said: status?")
    assert answer.topic == topic
    assert answer.reply_to == asked.id
    # The beginning of the topic, to which every message in it seems to reply, is no reply.
    assert seen.session_keys == [f"{group.id}:{asked.id}"]


async def test_an_answer_arrives_though_its_question_was_deleted(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        group.delete(asked)
        return "still here"

    await start(play=play)
    group = team(telegram)

    asked = group.send("@mikan_bot quick")

    answer = await group.answered("still here")
    assert answer.reply_to is None


async def test_in_a_topic_too_an_answer_arrives_though_its_question_was_deleted(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        group.delete(asked)
        return "still here"

    await start(play=play)
    group = team(telegram, forum=True)
    topic = group.open_topic("builds")

    asked = group.send("@mikan_bot quick", topic=topic)

    answer = await group.answered("still here")
    assert (answer.topic, answer.reply_to) == (topic, None)


async def test_an_answer_whose_topic_was_deleted_arrives_in_the_group(telegram: TelegramServer, start: Start) -> None:
    async def play(turn: Turn) -> str:
        group.delete(asked)
        group.delete(group.room.messages[topic])
        return "still here"

    await start(play=play)
    group = team(telegram, forum=True)
    topic = group.open_topic("builds")

    asked = group.send("@mikan_bot quick", topic=topic)

    answer = await group.answered("still here")
    assert (answer.topic, answer.reply_to) == (None, None)


async def test_people_without_a_user_name_are_mentioned_by_their_id(telegram: TelegramServer, start: Start) -> None:
    seen = CountedMessages()

    async def play(turn: Turn) -> str:
        return f"Hello <@{turn.request.event.message.author.user_name}>, meet <@bob_smith>."

    await start(play=play, around=seen.around)
    eve = telegram.people.group(1, telegram.people.person(77, "Eve", None))

    eve.mention("mikan", 7_000_000_001, "introduce us")

    answer = await eve.answered("Hello Eve, meet @bob_smith.")
    assert answer.entities == [{"type": "text_mention", "offset": 6, "length": 3, "user_id": 77}]
    assert seen.texts == ["introduce us"]


async def test_a_group_that_becomes_a_supergroup_keeps_its_office_and_is_answered_there(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    gateway = await start(around=seen.around)
    group = telegram.people.basic_group(7, telegram.people.person(42))
    group.send("@mikan_bot before")
    await group.answered("You said: before")

    later = group.upgrade(2)
    asked = later.send("@mikan_bot after")
    answer = await later.answered("You said: after")
    await gateway.restart()
    again = later.send("and now?", reply_to=answer.id)

    assert answer.reply_to == asked.id
    assert (await later.answered("You said: and now?")).reply_to == again.id
    assert [m.event.conversation_id for m in seen.messages] == ["-7"] * 3
    assert len(set(seen.session_keys)) == 3
    log = await gateway.logged("-7")
    assert log[:5] == ["before", "You said: before", "after", "You said: after", "and now?"]
    assert len(gateway.offices.views) == 1


async def test_an_answer_under_way_follows_a_group_that_becomes_a_supergroup(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        await turn.stream("half an")
        await group.until(lambda chat: "half an" in chat.texts)
        moved.append(group.upgrade(2))
        # In the new chat another message of the bot's has the number of the one that was begun in the old one.
        moved[0].room.messages.clear()
        moved[0].room.last_id = group.answers[0].id - 1
        other = telegram.world.add_message(moved[0].room, telegram.world.bot, text="another answer")
        assert other.id == group.answers[0].id
        return "half an answer, and its end"

    moved: list[Chat] = []
    await start(play=play)
    group = telegram.people.basic_group(7, telegram.people.person(42))

    group.send("@mikan_bot hello")

    await group.until(lambda _: moved)
    await moved[0].answered("half an answer, and its end")
    assert moved[0].texts == ["another answer", "half an answer, and its end"]
    assert group.texts == ["half an"]


async def test_a_move_that_the_bot_was_not_told_of_is_learned_from_a_refusal(
    telegram: TelegramServer, start: Start
) -> None:
    async def play(turn: Turn) -> str:
        if turn.text == "before":
            group.room.moved_to = int(later.id)
        return f"You said: {turn.text}"

    seen = CountedMessages()
    gateway = await start(play=play, around=seen.around)
    group, later = team(telegram), telegram.people.group(2, telegram.people.person(42))

    group.send("@mikan_bot before")
    await later.answered("You said: before")
    await gateway.restart()
    later.send("@mikan_bot after")

    await later.answered("You said: after")
    assert [m.event.conversation_id for m in seen.messages] == [group.id, group.id]


async def test_anonymous_admins_and_channels_are_answered_where_their_group_is_listed(
    telegram: TelegramServer, start: Start
) -> None:
    group = team(telegram)
    listed = Settings(admission={Platform.TELEGRAM: Admission(conversations=(group.id,))})
    gateway = await start(settings=listed)

    group.as_channel("rates rose", automatic=True)
    group.as_anonymous("@mikan_bot who am I?")
    group.as_channel("@mikan_bot and I?")

    await group.until(lambda chat: len(chat.answers) == 2)
    assert sorted(group.texts) == ["You said: and I?", "You said: who am I?"]
    assert (await gateway.logged(group.id))[0] == "rates rose"


async def test_a_listed_place_is_trusted_as_its_members_and_an_open_one_is_not(
    telegram: TelegramServer, start: Start
) -> None:
    seen = CountedMessages()
    group, ann, bob = team(telegram), telegram.private(42), telegram.private(43, "Bob", "bob")
    admission = Admission(open=True, conversations=(group.id,), users=("42",))
    await start(settings=Settings(admission={Platform.TELEGRAM: admission}), around=seen.around)

    for chat in (group, ann, bob):
        chat.send("@mikan_bot hello")

    await bob.answered("You said: hello")
    await ann.answered("You said: hello")
    await group.answered("You said: hello")
    trust = {m.event.conversation_id: m.info.trust_model for m in seen.messages}
    assert trust == {group.id: TrustModel.MEMBERSHIP, "42": TrustModel.MEMBERSHIP, "43": TrustModel.OPEN_TRIGGER}
