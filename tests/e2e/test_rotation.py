"""A rotated Secret reaches running sandboxes."""

import secrets
import time

from mikan_api import names
from mikan_cluster.release import Chat, Release


def test_a_rotated_secret_is_seen_by_a_command_five_seconds_later_with_no_restart(release: Release, chat: Chat) -> None:
    old, new = secrets.token_hex(6), secrets.token_hex(6)
    release.vault(chat.key, {"ROTATED": old, "key.txt": old}, files=[{"key": "key.txt"}])
    assert f"{old} {old}" in chat.say('run: echo "$ROTATED $(cat ~/key.txt)"')
    before = release.kubectl.get("pod", names.sandbox_pod(chat.key), "-n", release.offices)

    release.vault(chat.key, {"ROTATED": new, "key.txt": new}, files=[{"key": "key.txt"}])
    time.sleep(5)
    answer = chat.say('run: echo "$ROTATED $(cat ~/key.txt)"')

    after = release.kubectl.get("pod", names.sandbox_pod(chat.key), "-n", release.offices)
    assert f"{new} {new}" in answer
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [c["restartCount"] for c in after["status"]["containerStatuses"]] == [0]
