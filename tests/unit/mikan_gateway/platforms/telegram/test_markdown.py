"""GFM as Telegram's HTML: what becomes of each construct, and what never becomes a tag."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mikan_gateway.platforms.telegram.markdown import read_markdown
from mikan_gateway.platforms.telegram.rich_text import to_html, to_plain
from servers.telegram.html_entities import parse_html


def html(text: str, names: dict[str, str] | None = None) -> str:
    return to_html(read_markdown(text, names))


@pytest.mark.parametrize(
    ("gfm", "shown"),
    [
        ("plain", "plain"),
        ('a & b < c > d "e"', "a &amp; b &lt; c &gt; d &quot;e&quot;"),
        ("**b** *i* ~~s~~ `c`", "<b>b</b> <i>i</i> <s>s</s> <code>c</code>"),
        ("**b *bi* b**", "<b>b <i>bi</i> b</b>"),
        ("# Title", "<b>Title</b>"),
        ("# A **bold** title", "<b>A bold title</b>"),
        ("one\ntwo", "one\ntwo"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("- a\n- b\n  - c", "• a\n• b\n  • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("0. a", "0. a"),
        ("> quoted\n> **too**\n\nnot", "<blockquote>quoted\n<b>too</b></blockquote>\n\nnot"),
        ("> a\n>> b", "<blockquote>a\n\nb</blockquote>"),
        ("```python\nif a < b: pass\n```", '<pre><code class="language-python">if a &lt; b: pass</code></pre>'),
        ("```\nx\n```", "<pre>x</pre>"),
        ('```"><script>\nx\n```', "<pre>x</pre>"),
        ("    indented", "<pre>indented</pre>"),
        ("[text](https://example.org/?a=1&b=2)", '<a href="https://example.org/?a=1&amp;b=2">text</a>'),
        ("<https://example.org>", '<a href="https://example.org">https://example.org</a>'),
        ("![a cat](https://example.org/cat.png)", '<a href="https://example.org/cat.png">a cat</a>'),
        ("[`code`](https://example.org)", '<a href="https://example.org">code</a>'),
        ("**`code`**", "<code>code</code>"),
        ("[x](tg://resolve?domain=scam)", "x"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("<b>raw</b> <script>", "&lt;b&gt;raw&lt;/b&gt; &lt;script&gt;"),
        ("---", "———"),
        ("| a | b |\n|---|---|\n| 1 | 日本 |", "<pre>a | b\n--+-----\n1 | 日本</pre>"),
        ("hello <@ann_b>!", "hello @ann_b!"),
        ("`<@ann>`", "<code>&lt;@ann&gt;</code>"),
        ("<@42> and <@43>", '<a href="tg://user?id=42">Eve &lt;3</a> and <a href="tg://user?id=43">43</a>'),
        ("", ""),
        ("   \n\n ", ""),
    ],
)
def test_each_construct_has_its_form(gfm: str, shown: str) -> None:
    assert html(gfm, {"42": "Eve <3"}) == shown


def test_a_link_too_long_for_a_tag_is_text() -> None:
    assert html(f"[text](https://example.org/{'a' * 1000})") == "text"


MARKDOWN = st.text(st.one_of(st.sampled_from("*_~`#>-|[]()!<@&\n 1.ab😀"), st.characters(codec="utf-8")), max_size=300)


@settings(deadline=None)
@given(MARKDOWN)
def test_whatever_a_model_writes_telegram_can_read(text: str) -> None:
    runs = read_markdown(text)

    shown, _ = parse_html(to_html(runs))

    assert shown == to_plain(runs)


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "Zs"]), max_size=200))
def test_plain_words_stay_as_they_are(text: str) -> None:
    words = "x" + text + "x"

    assert to_plain(read_markdown(words)) == words
