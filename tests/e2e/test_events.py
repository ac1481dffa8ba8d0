"""A reminder that the model sets in the chat fires in time, once, and wakes its office; admins' events do, too."""

import json
import time
from datetime import UTC, datetime

from mikan_api import names
from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release


def answers(release: Release, chat: Chat) -> list[str]:
    """What the bot has said, as the office's own log has it."""
    done = release.in_agent(chat.key, "cat", f"/mikan/records/{chat.key}/history/log.jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    return [line["text"] for line in lines if line.get("isBot")]


def events(release: Release, chat: Chat) -> list[dict[str, object]]:
    """The conversation's events that are left."""
    found: list[dict[str, object]] = release.kubectl.get(
        "sev", "-n", release.offices, "-l", f"{names.LABEL_OFFICE}={chat.key}"
    )
    return found


def idle(release: Release, chat: Chat, timeout: str) -> None:
    """Have an office sleep after this long."""
    patch = json.dumps({"spec": {"idleTimeout": timeout}})
    release.kubectl("patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", patch)


def test_a_reminder_that_was_asked_for_in_the_chat_is_given_once(release: Release, chat: Chat) -> None:
    said = chat.say("remind in 8 s: slow 0: Your tea is ready")
    assert "The event reminder-8 is set up: once, at " in said
    assert len(events(release, chat)) == 1
    table = release.kubectl("get", "sev", "-n", release.offices, "-l", f"{names.LABEL_OFFICE}={chat.key}")
    assert table.split("\n")[0].split() == [
        "NAME", "TYPE", "CONVERSATION", "SCHEDULE", "NEXT", "LAST", "SUSPENDED", "AGE",
    ]  # fmt: skip
    assert chat.conversation in table
    print(f"\n{table}")

    eventually("it has fired", lambda: not events(release, chat), seconds=40)
    eventually("it is answered", lambda: "(scripted model) Your tea is ready" in answers(release, chat), seconds=40)
    time.sleep(3)
    assert answers(release, chat).count("(scripted model) Your tea is ready") == 1
    assert "There are no events for this conversation." in chat.say("events")


def test_an_admins_event_wakes_a_sleeping_office(release: Release, chat: Chat) -> None:
    chat.say("hello")
    idle(release, chat, "1s")
    release.await_condition(chat.key, "False", "Idle")
    eventually("its pods are gone", lambda: release.pods(chat.key) == [])
    idle(release, chat, "10m")

    name = f"admin-{chat.conversation}"
    fired = datetime.now(UTC)
    release.kubectl.apply(
        {
            "apiVersion": names.API_VERSION,
            "kind": "ScheduledEvent",
            "metadata": {"name": name},
            "spec": {
                "type": "immediate",
                "platform": "console",
                "conversationId": chat.conversation,
                "text": "stop",
            },
        },
        namespace=release.offices,
    )

    release.await_condition(chat.key, "True", "Running", seconds=90)
    # `stop` is a prompt here, which the scripted model does not know.
    eventually("it is answered", lambda: any("Hello! I am the scripted model" in a for a in answers(release, chat)[1:]))
    print(f"\nawake and answered after {(datetime.now(UTC) - fired).total_seconds():.1f} s")
    assert name not in release.kubectl.names("sev", "-n", release.offices)


def test_an_event_of_a_conversation_that_nobody_has_begun_stays_and_says_why(release: Release) -> None:
    release.kubectl.apply(
        {
            "apiVersion": names.API_VERSION,
            "kind": "ScheduledEvent",
            "metadata": {"name": "to-nobody"},
            "spec": {"type": "immediate", "platform": "console", "conversationId": "nobody-at-all", "text": "hi"},
        },
        namespace=release.offices,
    )

    def refused() -> bool:
        status = release.kubectl.get("sev", "to-nobody", "-n", release.offices).get("status", {})
        ready = [c for c in status.get("conditions", []) if c["type"] == "Ready"]
        return [(c["status"], c["reason"]) for c in ready] == [("False", "OfficeNotFound")]

    eventually("it says why", refused, seconds=30)
    release.kubectl("delete", "sev", "to-nobody", "-n", release.offices)
