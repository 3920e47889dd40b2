"""A guide: a Markdown file, shown as a page, and split into sections for the search.

Samples of one step in several languages follow one another in the file. The page shows them as one box."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

LANGUAGES = {"bash": "curl", "python": "Python", "typescript": "TypeScript"}
"""The languages of samples, by their name in the Markdown."""

_SAMPLES = "samples"
"""The type of token for the samples of one step."""


class Section(NamedTuple):
    """The text below one heading."""

    page: str
    """The title of the page."""
    path: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Guide:
    name: str
    source: str
    title: str
    summary: str
    """Its first sentence."""
    body: Markup
    headings: Sequence[tuple[str, str]]
    """Anchor and text of each heading of the second level."""
    sections: Sequence[Section]


def read_guide(name: str, source: str) -> Guide:
    """Reads a guide. Raises ValueError, when the docs are made, if it does not begin with a title and a paragraph."""
    tokens = _parser().parse(source)
    texts = [token.content for token in tokens if token.type == "inline"]
    if len(texts) < 2 or tokens[0].tag != "h1":
        raise ValueError(f"the guide {name} needs a title and a paragraph after it")
    title, first = _plain(texts[0]), _joined([_plain(texts[1])])
    sections = list(_sections(f"/docs/{name}", title, tokens))
    headings = [
        (str(token.attrs["id"]), _plain(tokens[place + 1].content))
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]
    body = Markup(_parser().renderer.render(list(_with_samples(tokens)), _parser().options, {}))  # noqa: S704 (our own)
    return Guide(name, source, title, first.partition(". ")[0].rstrip(".") + ".", body, headings, sections)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.core.ruler.push("anchors", lambda state: _set_anchors(state.tokens))
    for code in ("fence", "code_block"):  # a long line can be scrolled, also by the keyboard
        parser.add_render_rule(code, lambda _, tokens, place, *__: _code(tokens[place]))
    # A wide table can be scrolled, also by the keyboard.
    parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    parser.add_render_rule(_SAMPLES, lambda _, tokens, place, *__: _samples(tokens[place].children or []))
    return parser


def _set_anchors(tokens: Sequence[Token]) -> None:
    """Give each heading an anchor: its text in lower case, with `-` for spaces, such as `#if-none-match`."""
    for opening, text in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", re.sub(r"[^a-z0-9_]+", "-", _plain(text.content).lower()).strip("-"))


def _with_samples(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens, with neighbouring samples joined into one token."""
    neighbours: list[Token] = []
    for token in [*tokens, Token("end", "", 0)]:
        if token.type == "fence" and token.info in LANGUAGES:
            neighbours.append(token)
            continue
        if neighbours:
            yield Token(_SAMPLES, "", 0, children=neighbours)
            neighbours = []
        if token.type != "end":
            yield token


def _samples(samples: Sequence[Token]) -> str:
    boxes = (
        f'<div class="sample" data-language="{sample.info}"><p class="language">{LANGUAGES[sample.info]}</p>'
        f"{_code(sample)}</div>"
        for sample in samples
    )
    return f'<div class="samples">{"".join(boxes)}</div>'


def _code(token: Token) -> str:
    try:
        lexer = get_lexer_by_name(token.info or "text")
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    inner: str = highlight(token.content, lexer, HtmlFormatter(nowrap=True))
    return f'<pre tabindex="0"><code>{inner}</code></pre>\n'


def _sections(path: str, title: str, tokens: Sequence[Token]) -> Iterator[Section]:
    heading, anchor, text = title, "", list[str]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            yield Section(title, path + anchor, heading, _joined(text))
            heading, anchor, text = _plain(tokens[place + 1].content), f"#{token.attrs['id']}", []
        elif token.type == "inline" and not tokens[place - 1].type.startswith("heading"):
            text.append(_plain(token.content))
        elif token.type == "fence":
            text.append(token.content)
    yield Section(title, path + anchor, heading, _joined(text))


def _joined(texts: Sequence[str]) -> str:
    return " ".join(" ".join(texts).split())


def _plain(markdown: str) -> str:
    """The text without Markdown's marks of links, code and stress."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").replace("**", "")


def operations_of(description: dict[str, Any]) -> Iterator[Section]:
    """The operations of the API's description, for the search."""
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if method == "parameters":
                continue
            told = " ".join(
                (
                    operation["description"],
                    *(f"{one['name']}: {one['description']}" for one in operation.get("parameters", ())),
                )
            )
            where = f"/docs/reference#operation/{operation['operationId']}"
            yield Section("Reference", where, f"{method.upper()} {path}: {operation['summary']}", told)
