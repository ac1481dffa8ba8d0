"""Session messages in the form of OpenAI's chat completions API ("Create chat completion", ``messages``)."""

import json
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


def build_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Part of a request's ``messages``. Reasoning is left out, and so is what no model should read."""
    form: list[JsonObject] = []
    images: list[JsonObject] = []
    for message in messages:
        if images and not isinstance(message, ToolResultMessage):
            form.append(_images_message(images))
            images = []
        if isinstance(message, ToolResultMessage):
            form.append({"role": "tool", "tool_call_id": message.tool_call_id, "content": _result_text(message)})
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
    form: JsonObject = {"role": "assistant", "content": message.text or None}
    if calls := message.tool_calls:
        form["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in calls
        ]
    return [form] if form["content"] is not None or calls else []


def _result_text(message: ToolResultMessage) -> str:
    return message.text or ("(see the picture below)" if message.content else "(no output)")


def _user_content(content: str | list[Content]) -> str | list[JsonObject]:
    if isinstance(content, str):
        return content
    if all(isinstance(part, TextContent) for part in content):
        return "\n".join(part.text for part in content if isinstance(part, TextContent))
    parts: list[JsonObject] = []
    for part in content:
        if isinstance(part, TextContent):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImageContent):
            parts.append(_image(part))
    return parts


def _image(part: ImageContent) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}


def _images_message(images: list[JsonObject]) -> JsonObject:
    return {"role": "user", "content": [{"type": "text", "text": "Pictures that the tools returned:"}, *images]}
