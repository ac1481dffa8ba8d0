"""Session messages in the form of OpenAI's chat completions API ("Create chat completion", ``messages``)."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from mikan_agent.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolResultMessage,
    UserMessage,
)

JsonObject = dict[str, Any]
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of calls that every server takes; OpenAI's longest has 40 characters."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_BLANK = "(no text)"


def build_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Part of a request's ``messages``. Reasoning is left out, and so is what no model should read."""
    form: list[JsonObject] = []
    images: list[JsonObject] = []
    for message in messages:
        if images and not isinstance(message, ToolResultMessage):
            form.append(_images_message(images))
            images = []
        if isinstance(message, ToolResultMessage):
            form.append({"role": "tool", "tool_call_id": _id(message.tool_call_id), "content": _result_text(message)})
            # The tool role carries text only; pictures follow the last result of the group.
            images += [_image(part) for part in message.content if isinstance(part, ImageContent)]
        else:
            form += _plain(message)
    return [*form, _images_message(images)] if images else form


def _plain(message: Message) -> list[JsonObject]:
    match message:
        case UserMessage() | CustomMessage():
            return [{"role": "user", "content": _user_content(message.content)}]
        case AssistantMessage():
            return _assistant(message)
        case BashExecutionMessage() if not message.exclude_from_context:
            return [{"role": "user", "content": f"A person ran `{message.command}`:\n{message.output}"}]
        case BranchSummaryMessage():
            return [{"role": "user", "content": f"Summary of a branch that was left:\n{message.summary}"}]
        case CompactionSummaryMessage():
            return [{"role": "user", "content": f"Summary of the conversation so far:\n{message.summary}"}]
        case _:
            return []


def _assistant(message: AssistantMessage) -> list[JsonObject]:
    form: JsonObject = {"role": "assistant", "content": message.text if message.text.strip() else None}
    # Another writer of sessions may have let two calls of one answer have one id.
    if calls := {_id(call.id): call for call in reversed(message.tool_calls)}:
        form["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": _name(call.name), "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call_id, call in reversed(calls.items())
        ]
    return [form] if form["content"] is not None or calls else []


def _id(call_id: str) -> str:
    """An id that every server takes: a session may come from another model, whose ids are longer, or from `pi`."""
    return (
        call_id
        if _ID.fullmatch(call_id)
        else f"call_{hashlib.sha256(call_id.encode(errors='replace')).hexdigest()[:20]}"
    )


def _name(name: str) -> str:
    """A name that every server takes: a model may call what no tool could be, and its session must go on."""
    return _NO_NAME.sub("_", name)[:_LONGEST_NAME] or "unknown"


def _result_text(message: ToolResultMessage) -> str:
    if message.text.strip():
        return message.text
    pictures = any(isinstance(part, ImageContent) for part in message.content)
    return "(see the picture below)" if pictures else "(no output)"


def _user_content(content: str | list[Content]) -> str | list[JsonObject]:
    """What some server refuses, which is text that is blank, is left out or named."""
    if isinstance(content, str):
        return content if content.strip() else _BLANK
    if not any(isinstance(part, ImageContent) for part in content):
        return _user_content("\n".join(part.text for part in content if isinstance(part, TextContent)))
    parts: list[JsonObject] = []
    for part in content:
        if isinstance(part, TextContent) and part.text.strip():
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImageContent):
            parts.append(_image(part))
    return parts


def _image(part: ImageContent) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}


def _images_message(images: list[JsonObject]) -> JsonObject:
    return {"role": "user", "content": [{"type": "text", "text": "Pictures that the tools returned:"}, *images]}
