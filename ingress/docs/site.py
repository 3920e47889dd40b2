"""The pages at /docs: guides, the reference of the API, and a search. Machines get the guides as Markdown."""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams

from ingress.api.request import Answer, Request
from ingress.http.problems import ApiError

if TYPE_CHECKING:
    from jinja2 import Environment

    from ingress.docs.guide import Guide, Section

HERE = Path(__file__).parent
STATIC = HERE / "static"
CHANGELOG = "changelog"
CERTIFICATES = "certificates"
CHECKER = HERE.parents[1] / "deploy" / "clients" / "python" / "fuelroute_client" / "certificates.py"
"""The program that the guide on certificates shows. It belongs to the Python client."""

GUIDES = (
    "quickstart",
    "matching",
    "idempotency",
    "polling",
    "errors",
    "rate-limits",
    "sandbox",
    "telematics",
    "connectors",
    "fuel-plans",
    CERTIFICATES,
    "previews",
    "webhooks",
    "clients",
    "bulk-push",
    "versions",
    CHANGELOG,
)
"""The guides in the order in which a newcomer reads them. Each is a file in `guides/`."""

MOST_FOUND = 30
MOST_ASKED = 100
"""Most characters of a question; the rest of a longer one is ignored."""

_LINK_TO_FILE = re.compile(r"\[([^]]*)\]\((?!https?:|/)[^)]*\)")
_PAGE = b"text/html; charset=utf-8"
_MARKDOWN = b"text/markdown; charset=utf-8"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def _headers(*, inline_styles: bool = False, max_age_seconds: int = 300) -> tuple[tuple[bytes, bytes], ...]:
    """Headers of a page. The reference makes its styles while it runs; no page runs scripts but its own files."""
    policy = _POLICY.format(styles=" 'unsafe-inline'" if inline_styles else "")
    return (
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"public, max-age=%d" % max_age_seconds),
    )


class Docs:
    """The pages of one process. A thread makes them when the first is asked for."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._description = description
        self._made: _Pages | None = None
        self._making = asyncio.Lock()

    async def start_page(self, _: Request) -> Answer:
        pages = await self._pages()
        return Answer(200, pages.start, _PAGE, _headers())

    async def page(self, request: Request) -> Answer:
        """A guide by its name, `reference` or `search`. A name with `.md` gives the guide's Markdown."""
        name, pages = request.path_id, await self._pages()
        if name == "reference":
            return Answer(200, pages.reference, _PAGE, _headers(inline_styles=True))
        if name == "search":
            asked = QueryParams(request.scope["query_string"]).get("q", "")[:MOST_ASKED]
            return Answer(200, await asyncio.to_thread(pages.search, asked), _PAGE, _headers(max_age_seconds=0))
        if name in pages.guides:
            return Answer(200, pages.guides[name], _PAGE, _headers())
        if name in pages.sources:
            return Answer(200, pages.sources[name], _MARKDOWN, _headers())
        raise ApiError("not_found", "There is no such page: see /docs.")

    async def static_file(self, request: Request) -> Answer:
        kept = (await self._pages()).static.get(request.path_id)
        if kept is None:
            raise ApiError("not_found", "There is no such file.")
        media_type = guess_type(request.path_id)[0] or "text/plain"
        return Answer(200, kept, media_type.encode(), _headers(max_age_seconds=365 * 24 * 3600))

    async def list_for_machines(self, _: Request) -> Answer:
        return Answer(200, (await self._pages()).for_machines, _MARKDOWN, _headers())

    async def _pages(self) -> "_Pages":
        if self._made is None:
            async with self._making:
                if self._made is None:
                    self._made = await asyncio.to_thread(_make_pages, self._description)
        return self._made


@dataclass(frozen=True, slots=True)
class _Pages:
    """Every page, ready to be sent."""

    start: bytes
    guides: Mapping[str, bytes]
    sources: Mapping[str, bytes]
    reference: bytes
    for_machines: bytes
    static: Mapping[str, bytes]
    sections: "Sequence[Section]"
    templates: "Environment"

    def search(self, asked: str) -> bytes:
        page = self.templates.get_template("search.html")
        return page.render(name="search", asked=asked, found=list(_find(self.sections, asked))).encode()


def _make_pages(description: Mapping[str, Any]) -> _Pages:
    # Most processes never show a page, so the page makers are loaded with the first one.
    from ingress.docs.guide import operations_of, read_guide

    guides = [read_guide(name, read_source(name)) for name in GUIDES]
    templates = _make_templates(guides)
    return _Pages(
        start=templates.get_template("start.html").render(name="").encode(),
        guides={
            guide.name: templates.get_template("guide.html").render(name=guide.name, guide=guide).encode()
            for guide in guides
        },
        sources={f"{guide.name}.md": guide.source.encode() for guide in guides},
        reference=templates.get_template("reference.html").render(name="reference").encode(),
        for_machines=templates.get_template("llms.txt").render(guides=guides).encode(),
        static={path.name: path.read_bytes() for path in STATIC.iterdir()},
        sections=[*(section for guide in guides for section in guide.sections), *operations_of(dict(description))],
        templates=templates,
    )


def read_source(name: str) -> str:
    """The Markdown of a guide. The changelog is the project's own, without its links to files of the project; an
    installed package has a copy."""
    path = HERE / "guides" / f"{name}.md"
    if name == CERTIFICATES:
        program = f"```py\n{CHECKER.read_text(encoding='utf-8')}```"
        return path.read_text(encoding="utf-8").replace("<!-- the program -->", program)
    if name != CHANGELOG:
        return path.read_text(encoding="utf-8")
    changelog = path if path.exists() else HERE.parent.parent / "CHANGELOG.md"
    return _LINK_TO_FILE.sub(r"\1", changelog.read_text(encoding="utf-8"))


def _make_templates(guides: "Sequence[Guide]") -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("ingress.docs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {"guides": guides, "static_url": _static_url}
    return templates


def _static_url(name: str) -> str:
    return f"/docs/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _find(sections: "Sequence[Section]", asked: str) -> "Iterator[tuple[Section, str]]":
    """The sections with every asked word, the best first, each with the text around the first word."""
    words = re.findall(r"\w+", asked.lower())
    if not words:
        return
    found = []
    for section in sections:
        heading, text = f"{section.page} {section.heading}".lower(), section.text.lower()
        if all(word in heading or word in text for word in words):
            found.append((sum(10 * (word in heading) + text.count(word) for word in words), section))
    found.sort(key=lambda entry: -entry[0])
    for _, section in found[:MOST_FOUND]:
        place = max(section.text.lower().find(words[0]) - 60, 0)
        yield section, section.text[place : place + 180].strip()
