"""Reads the model's GFM as text with Telegram's tags (`rich_text`).

Telegram knows bold, italic, strike, code, pre, links and quotes; no headings, lists, rules or tables. Those become bold
lines, bulleted lines, a dash and aligned columns. Raw HTML is text: nothing that a model writes becomes a tag.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from markdown_it import MarkdownIt
from markdown_it.token import Token

from mikan_gateway.platforms.telegram.rich_text import Run, escape, units

_MENTION = re.compile(r"<@([\w.-]{1,64})>")
_LINKS = ("http://", "https://")
MAX_TAG = 1_000
"""UTF-16 units of a link's tag; a longer address is shown as text."""
QUOTE = "<blockquote>"
RULE = "———"
_INLINE = {"strong_open": "<b>", "em_open": "<i>", "s_open": "<s>"}

_parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def read_markdown(text: str, names: Mapping[str, str] | None = None) -> list[Run]:
    """GFM as runs.

    Args:
        text: what the model wrote, `clean`.
        names: how to show people whom a mention names by id, since not everybody has a user name.
    """
    writer = _Writer(names or {})
    writer.blocks(_parser.parse(text))
    return [run for run in writer.runs if run.text]


class _Writer:
    """Walks the parser's tokens."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.runs: list[Run] = []
        self._names = names
        self._tags: list[str] = []
        self._lists: list[int | None] = []
        """The next number of each open list, the innermost last; ``None`` = bullets."""
        self._fresh = True
        """Whether the next block begins where the last character stands."""
        self._first_item = False
        self._rows: list[list[str]] | None = None

    def blocks(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self._block(token)

    def _block(self, token: Token) -> None:
        match token.type:
            case "paragraph_open":
                self._begin()
            case "heading_open":
                self._begin()
                self._tags.append("<b>")
            case "heading_close":
                self._tags.pop()
            case "inline":
                self._inline_block(token)
            case "fence" | "code_block":
                self._begin()
                self._code(token)
            case "hr":
                self._begin()
                self._emit(RULE)
            case "blockquote_open":
                self._begin()
                self._tags.append(QUOTE)
                self._fresh = True
            case "blockquote_close":
                self._tags.pop()
                self._fresh = False
            case _:
                self._list_or_table(token)

    def _list_or_table(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self._open_list(None)
            case "ordered_list_open":
                start = token.attrGet("start")
                self._open_list(1 if start is None else int(start))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._fresh = False
            case "list_item_open":
                self._item()
            case "table_open":
                self._rows = []
            case "tr_open":
                if self._rows is not None:
                    self._rows.append([])
            case "table_close":
                self._table()

    # Blocks

    def _begin(self) -> None:
        """Leave the gap that a block stands apart by."""
        if self._fresh:
            self._fresh = False
            return
        self._emit("\n" + "  " * len(self._lists) if self._lists else "\n\n")

    def _open_list(self, start: int | None) -> None:
        self._lists.append(start)
        self._first_item = len(self._lists) == 1

    def _item(self) -> None:
        if not self._fresh:
            self._emit("\n\n" if self._first_item else "\n")
            self._emit("  " * (len(self._lists) - 1))
        self._first_item = False
        number = self._lists[-1]
        if number is None:
            self._emit("• ")
        else:
            self._emit(f"{number}. ")
            self._lists[-1] = number + 1
        self._fresh = True

    def _code(self, token: Token) -> None:
        language = token.info.split()[0] if token.info.strip() else ""
        tags: tuple[str, ...] = ("<pre>",)
        if re.fullmatch(r"[A-Za-z0-9_+#.-]{1,32}", language):
            tags = ("<pre>", f'<code class="language-{language}">')
        self.runs.append(Run(token.content.rstrip("\n"), tags))

    def _table(self) -> None:
        rows, self._rows = self._rows or [], None
        self._begin()
        self.runs.append(Run(_aligned(rows), ("<pre>",)))

    def _inline_block(self, token: Token) -> None:
        if self._rows is not None:
            self._rows[-1].append(_cell(token))
            return
        depth = len(self._tags)
        for child in token.children or ():
            self._inline(child)
        del self._tags[depth:]

    # Inline

    def _inline(self, token: Token) -> None:
        match token.type:
            case "text" | "text_special":
                self._text(token.content)
            case "softbreak" | "hardbreak":
                self._emit("\n" + "  " * len(self._lists))
            case "code_inline":
                self._code_span(token.content)
            case "strong_open" | "em_open" | "s_open":
                self._tags.append(_INLINE[token.type])
            case "link_open":
                self._tags.append(_link(str(token.attrGet("href") or "")))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                self._tags.pop()
            case "image":
                href = str(token.attrGet("src") or "")
                self._tags.append(_link(href))
                self._emit(token.content or href)
                self._tags.pop()

    def _text(self, text: str) -> None:
        position = 0
        for mention in _MENTION.finditer(text):
            self._emit(text[position : mention.start()])
            self._mention(mention[1])
            position = mention.end()
        self._emit(text[position:])

    def _mention(self, name: str) -> None:
        if name.isascii() and name.isdigit():
            self._tags.append(f'<a href="tg://user?id={name}">')
            self._emit(self._names.get(name, name))
            self._tags.pop()
        else:
            self._emit(f"@{name}")

    def _code_span(self, text: str) -> None:
        # Code takes no other tags, and none can be in a link; there the link is worth more.
        around = [tag for tag in self._tags if tag == QUOTE or tag.startswith("<a ")]
        linked = any(tag.startswith("<a ") for tag in around)
        self.runs.append(Run(text, _distinct(around if linked else [*around, "<code>"])))

    def _emit(self, text: str) -> None:
        if text:
            self.runs.append(Run(text, _distinct(self._tags)))


def _distinct(tags: Sequence[str]) -> tuple[str, ...]:
    """Without repetitions: nothing is bold twice, and quotes and links can't be nested."""
    seen: list[str] = []
    for tag in tags:
        nested_link = tag.startswith("<a ") and any(other.startswith("<a ") for other in seen)
        if tag and tag not in seen and not nested_link:
            seen.append(tag)
    return tuple(seen)


def _link(href: str) -> str:
    """The tag of a link, empty for one that Telegram would not follow."""
    tag = f'<a href="{escape(href)}">'
    return tag if href.lower().startswith(_LINKS) and units(tag) <= MAX_TAG else ""


def _cell(token: Token) -> str:
    texts = (" " if c.type in {"softbreak", "hardbreak"} else c.content for c in token.children or ())
    return _MENTION.sub(r"@\1", " ".join("".join(texts).split()))


def _width(text: str) -> int:
    wide = sum(1 for c in text if unicodedata.east_asian_width(c) in "WF")
    return len(text) + wide - sum(1 for c in text if unicodedata.combining(c))


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as lines of equally wide columns, a rule below the first."""
    widths = [max(map(_width, column)) for column in zip_longest(*rows, fillvalue="")]

    def line(row: Sequence[str]) -> str:
        cells = zip_longest(row, widths, fillvalue="")
        return " | ".join(f"{cell}{' ' * (int(width or 0) - _width(str(cell)))}" for cell, width in cells).rstrip()

    lines = [line(row) for row in rows]
    return "\n".join([*lines[:1], "-+-".join("-" * width for width in widths), *lines[1:]])
