"""An idle office has no pods; the next message finds it as it was."""

import time

from mikan_cluster.commands import eventually
from mikan_cluster.release import Chat, Release


def test_an_idle_office_sleeps_and_wakes_with_its_session(release: Release, chat: Chat) -> None:
    chat.say("run: echo first")
    release.kubectl(
        "patch", "office", chat.key, "-n", release.offices, "--type=merge", "-p", '{"spec":{"idleTimeout":"2s"}}'
    )

    release.await_condition(chat.key, "False", "Idle")
    eventually("no pods", lambda: release.pods(chat.key) == [])
    before = release.office(chat.key)["metadata"]["uid"]

    began = time.monotonic()
    answer = chat.say("run: ls sessions/*.jsonl | wc -l")
    took = time.monotonic() - began

    print(f"\nfrom message to answer, office asleep: {took:.2f} s (with the start of the mikan command)")
    assert "scripted" in answer
    assert release.office(chat.key)["metadata"]["uid"] == before
    session = release.in_agent(chat.key, "sh", "-c", f"cat /mikan/records/{chat.key}/history/sessions/*.jsonl").stdout
    assert session.count('"role":"user"') == 2
    assert len(session.strip().splitlines()) > 4
