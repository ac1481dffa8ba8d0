"""A chat message as the model reads it: who wrote it, what it says, where its files are, and pictures themselves."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from mikan_agent.messages import ImageContent, TextContent, UserMessage
from mikan_agent.tools.tool import one_line
from mikan_api.messaging import Attachment, ConversationKind
from mikan_api.wire import RunRequest

_ANOTHERS = re.compile(r"(?<=[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])(?=<@[^>\n]{1,200}>:)")
"""Where a line would pass for what somebody else wrote."""


def build_user_message(
    request: RunRequest,
    attachments: PurePosixPath,
    now: int,
    *,
    failed: Mapping[str, str] | None = None,
    pictures: Mapping[str, ImageContent] | None = None,
) -> UserMessage:
    """The message of a run.

    Args:
        request: the run.
        attachments: the directory of attachments as commands see it.
        now: Unix milliseconds.
        failed: attachment id -> why this process could not fetch it.
        pictures: attachment id -> the picture, of those that are shown with the message.
    """
    message, failed, pictures = request.event.message, failed or {}, pictures or {}
    author = message.author.user_name or message.author.id
    several = request.event.conversation_kind is ConversationKind.SHARED and request.kind == "message"
    text = f"<@{one_line(author, 80)}>: {_ANOTHERS.sub('    ', message.text)}" if several else message.text
    files = [_file(a, attachments, a.error or failed.get(a.id)) for a in message.attachments]
    text = "\n".join([text, "", "Attached files:", *files]) if files else text
    if not pictures:
        return UserMessage(content=text, timestamp=now)
    return UserMessage(content=[TextContent(text=text), *pictures.values()], timestamp=now)


def _file(attachment: Attachment, directory: PurePosixPath, error: str | None) -> str:
    name = one_line(attachment.original_name or attachment.name, 120)
    if error:
        return f"- {name}: could not be fetched ({one_line(error)})"
    path, kind = one_line(str(directory / attachment.name), 500), one_line(attachment.media_type, 80)
    return f"- {path} ({name}, {kind}, {attachment.size} bytes)"
