"""Telegram's HTML (Bot API "HTML style"): its tags, nothing else, and its complaints with byte offsets."""

import re
from typing import Any

from servers.telegram.errors import ApiError, bad_request

TYPES = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
}
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REFERENCE = re.compile(r"&(?:#x([0-9a-fA-F]{1,6})|#([0-9]{1,7})|(lt|gt|amp|quot));")
_ATTRIBUTE = re.compile(r"""\s*([A-Za-z][\w-]*)(?:=("[^"]*"|'[^']*'|[^\s>"']+))?""")


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def parse_html(source: str) -> tuple[str, list[dict[str, Any]]]:
    """Text and entities of a message in HTML.

    Raises:
        ApiError: as Telegram's parser says it.
    """
    out: list[str] = []
    entities: list[dict[str, Any]] = []
    open_tags: list[tuple[str, int, str]] = []
    length = position = 0
    while position < len(source):
        if source[position] == "<":
            position = _tag(source, position, length, open_tags, entities)
            continue
        text, position = _text(source, position)
        out.append(text)
        length += units(text)
    if open_tags:
        raise _problem(f'Can\'t find end tag corresponding to start tag "{open_tags[-1][0]}"')
    entities.sort(key=lambda e: (e["offset"], -e["length"]))
    return "".join(out), _merged(entities)


def _tag(
    source: str, at: int, length: int, open_tags: list[tuple[str, int, str]], entities: list[dict[str, Any]]
) -> int:
    offset = len(source[:at].encode())
    if source[at + 1 : at + 2] == "/":
        end = source.find(">", at)
        if end < 0:
            raise _problem(f"Unclosed end tag at byte offset {offset}")
        name = source[at + 2 : end].strip().lower()
        if not open_tags:
            raise _problem(f"Unexpected end tag at byte offset {offset}")
        opened, began, argument = open_tags.pop()
        if name and name != opened:
            raise _problem(f'Unmatched end tag at byte offset {offset}, expected "</{opened}>", found "</{name}>"')
        _close(opened, began, length, argument, open_tags, entities)
        return end + 1
    found = re.compile(r"<([^\s>]*)").match(source, at)
    assert found is not None
    name = found[1].lower()
    if found.end() >= len(source):
        raise _problem(f"Unclosed start tag at byte offset {offset}")
    if name not in TYPES:
        raise _problem(f'Unsupported start tag "{name}" at byte offset {offset}')
    position, argument = _attributes(source, found.end(), name, offset)
    open_tags.append((name, length, argument))
    return position


def _attributes(source: str, position: int, name: str, offset: int) -> tuple[int, str]:
    argument = ""
    while True:
        while position < len(source) and source[position].isspace():
            position += 1
        if position >= len(source):
            raise _problem(f"Unclosed start tag at byte offset {offset}")
        if source[position] == ">":
            break
        found = _ATTRIBUTE.match(source, position)
        if found is None:
            raise _problem(f'Empty attribute name in the tag "{name}" at byte offset {offset}')
        value = _unescape((found[2] or "").strip("\"'"))
        if (name, found[1].lower()) in {("a", "href"), ("code", "class"), ("span", "class")}:
            argument = value
        position = found.end()
    if name == "span" and argument != "tg-spoiler":
        raise _problem(f'Tag "span" must have class "tg-spoiler" at byte offset {offset}')
    return position + 1, argument


def _close(
    name: str,
    began: int,
    length: int,
    argument: str,
    open_tags: list[tuple[str, int, str]],
    entities: list[dict[str, Any]],
) -> None:
    if length == began:
        return
    entity: dict[str, Any] = {"type": TYPES[name], "offset": began, "length": length - began}
    if name == "a":
        if not argument:
            return
        if argument.startswith("tg://user?id="):
            entity |= {"type": "text_mention", "user_id": int(argument.removeprefix("tg://user?id="))}
        else:
            entity["url"] = argument
    if name == "code" and argument.startswith("language-") and open_tags and open_tags[-1][0] == "pre":
        entity = {**entity, "type": "pre", "language": argument.removeprefix("language-")}
    entities.append(entity)


def _merged(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``pre`` around ``code`` is one entity; code and pre take nothing inside."""
    solid = [e for e in entities if e["type"] in {"pre", "code"}]
    kept: list[dict[str, Any]] = []
    for entity in entities:
        around = [s for s in solid if s is not entity and _inside(entity, s)]
        if entity["type"] == "pre" and "language" not in entity:
            named = [s for s in solid if "language" in s and s["offset"] == entity["offset"]]
            if named:
                continue
        if entity["type"] not in {"pre"} and around:
            continue
        kept.append(entity)
    return kept


def _inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    begin, end = outer["offset"], outer["offset"] + outer["length"]
    return bool(begin <= inner["offset"] and inner["offset"] + inner["length"] <= end)


def _text(source: str, position: int) -> tuple[str, int]:
    end = source.find("<", position)
    end = len(source) if end < 0 else end
    return _unescape(source[position:end]), end


def _unescape(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found[3]:
            return _NAMED[found[3]]
        code = int(found[1], 16) if found[1] else int(found[2])
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]

    return _REFERENCE.sub(character, text)


def _problem(what: str) -> ApiError:
    return bad_request(f"can't parse entities: {what}")
