"""The documentation: every page is there, every link leads somewhere, and the errors are all explained."""

import re
import subprocess
import sys

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.magic_values import MAGIC_VALUES
from ingress.api.openapi import describe
from ingress.docs.guide import LANGUAGES, read_guide
from ingress.docs.site import CERTIFICATES, CHECKER, GUIDES, MOST_FOUND, STATIC, _find, _make_pages, read_source
from ingress.http.problems import KINDS

PATHS = ["/docs", "/docs/reference", "/docs/search", *(f"/docs/{name}" for name in GUIDES)]
_LINK = re.compile(r'(?:href|src)="([^"]+)"')
_ID = re.compile(r'id="([^"]+)"')


OTHER_ADDRESSES = ("/v1/openapi.json", "/planning/openapi.json", "/llms.txt")
"""Addresses of the service that are no pages."""


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Every page by its path, as it is sent."""
    made = _make_pages(describe())
    guides = {f"/docs/{name}": page.decode() for name, page in made.guides.items()}
    search = made.search("retry after").decode()
    return {"/docs": made.start.decode(), "/docs/reference": made.reference.decode(), "/docs/search": search, **guides}


@pytest.mark.parametrize("path", [*PATHS, "/llms.txt", *(f"/docs/{name}.md" for name in GUIDES)])
def test_every_page_is_answered_without_a_key(anonymous: httpx.Client, path: str) -> None:
    answer = anonymous.get(path)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] in ("text/html; charset=utf-8", "text/markdown; charset=utf-8")
    assert "default-src 'none'; script-src 'self';" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"] or path == "/docs/reference"


def test_an_address_without_anything_names_the_documentation(anonymous: httpx.Client) -> None:
    """A newcomer opens the address that `up` prints."""
    answer = anonymous.get("/")

    assert answer.status_code == 404
    assert "/docs" in answer.json()["detail"]


def test_the_list_for_machines_is_plain_text_with_one_line_for_each_guide() -> None:
    """Its reader is a program: it does not undo the escapes of a page."""
    text = _make_pages(describe()).for_machines.decode()

    listed = [line for line in text.splitlines() if line.startswith("- [") and "/docs/" in line]
    assert len(listed) == len(GUIDES)
    assert all(line.endswith(".") for line in listed)
    assert "trucks' GPS positions" in text
    assert "&#" not in text


def test_every_link_leads_to_a_page_and_a_place_on_it(pages: dict[str, str]) -> None:
    operations = {f"operation/{one['operationId']}" for path in describe()["paths"].values() for one in _methods(path)}
    lost = []
    for path, page in pages.items():
        for link in _LINK.findall(page):
            target, _, anchor = link.partition("#")
            target = target.partition("?")[0] or path
            if target.startswith("/docs/static/"):
                assert (STATIC / target.removeprefix("/docs/static/")).is_file(), link
            elif target.endswith(".md"):
                assert target.removeprefix("/docs/").removesuffix(".md") in GUIDES
            elif target in pages:
                places = set(_ID.findall(pages[target])) | (operations if target == "/docs/reference" else set())
                if anchor and anchor not in places:
                    lost.append(f"{path}: {link}")
            elif not link.startswith("https://") and target not in OTHER_ADDRESSES:
                lost.append(f"{path}: {link}")
    assert lost == []


def _methods(path: dict[str, dict[str, str]]) -> list[dict[str, str]]:
    return [operation for method, operation in path.items() if method != "parameters"]


def test_the_colors_of_the_reference_are_those_of_the_pages() -> None:
    """Redoc draws nothing when one of them is empty."""
    named = set(re.findall(r'"(--[a-z-]+)"', (STATIC / "reference.js").read_text()))
    light, dark = (STATIC / "docs.css").read_text().split("prefers-color-scheme: dark", 1)

    assert named
    for theme in (light, dark):
        assert named <= set(re.findall(r"(--[a-z-]+):", theme))


def test_nothing_is_loaded_from_elsewhere(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert re.findall(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(?!/)[^"]*"', page) == []
    for path in STATIC.iterdir():
        if path.suffix in (".css", ".svg") or path.name in ("docs.js", "reference.js"):
            assert "https://" not in path.read_text()


def test_each_error_is_explained_with_its_status_cause_and_cure() -> None:
    explained = {section.heading: section.text for section in read_guide("errors", read_source("errors")).sections}

    assert explained.keys() - {"Errors"} == KINDS.keys()
    for code, kind in KINDS.items():
        assert explained[code].startswith(f"Status {kind.status}. Cause: ")
        assert " Cure: " in explained[code]


def test_an_error_links_to_its_explanation(anonymous: httpx.Client) -> None:
    answer = anonymous.get("/v1/me")

    assert answer.json()["type"] == "about:blank"
    assert answer.headers["Link"] == '</docs/errors#unauthorized>; rel="help"'


def test_the_guide_on_certificates_shows_the_whole_program() -> None:
    assert CHECKER.read_text() in read_source(CERTIFICATES)


def test_samples_of_one_step_come_in_all_languages() -> None:
    """A step with samples in several languages has one in each, in the same order."""
    for name in GUIDES:
        for group in re.findall(r"((?:^```\w+\n(?:.*\n)*?^```\n)+)", read_source(name), re.M):
            languages = [one for one in re.findall(r"^```(\w+)$", group, re.M) if one in LANGUAGES]
            if len(languages) > 1:
                assert languages in (list(LANGUAGES), list(LANGUAGES)[1:]), f"{name}: {group[:80]}"


def test_the_search_finds_what_is_asked(anonymous: httpx.Client) -> None:
    def found(asked: str) -> list[str]:
        page = anonymous.get("/docs/search", params={"q": asked}).text
        return re.findall(r'<li><a href="([^"]+)">[^<]*</a><p>', page)

    assert found("route_active")[0] == "/docs/errors#route_active"
    assert "/docs/polling#everything-that-has-changed" in found("nextCursor")
    assert "/docs/reference#operation/cancelRoute" in found("cancel")
    assert found("retry after") == found("RETRY   after!")
    assert found("no page has the word quetzalcoatlus") == []
    assert found("") == []


def test_a_question_is_never_markup(anonymous: httpx.Client) -> None:
    page = anonymous.get("/docs/search", params={"q": '"><script>alert(1)</script>'}).text
    assert "<script>alert" not in page
    assert anonymous.get("/docs/search?q=%ff%00&q=x").status_code == 200
    assert anonymous.get("/docs/search", params={"q": "a " * 10_000}).status_code == 200


@given(st.text(max_size=30))
def test_any_question_finds_sections_that_have_its_words(asked: str) -> None:
    found = list(_find(_SECTIONS, asked))
    assert len(found) <= MOST_FOUND
    for section, _ in found:
        text = f"{section.page} {section.heading} {section.text}".lower()
        assert all(word in text for word in re.findall(r"\w+", asked.lower()))


_SECTIONS = read_guide("errors", read_source("errors")).sections


@pytest.mark.parametrize(
    "path",
    ["/docs/none", "/docs/..%2fsite", "/docs/none.md", "/docs/static/none", "/docs/static/..%2fsite.py", "/docs/"],
)
def test_an_address_without_a_page_is_not_found(anonymous: httpx.Client, path: str) -> None:
    answer = anonymous.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_pages_are_read_only(anonymous: httpx.Client) -> None:
    answer = anonymous.post("/docs/quickstart")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_the_build_that_answers_is_named(anonymous: httpx.Client) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", anonymous.get("/v1/openapi.json").json()["info"]["x-build"])


@pytest.mark.slow
def test_a_process_that_shows_no_page_loads_nothing_for_them() -> None:
    program = "import sys, ingress.app; print(*{'jinja2', 'markdown_it'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_guide_needs_a_title_and_a_paragraph() -> None:
    with pytest.raises(ValueError, match="the guide x needs a title"):
        read_guide("x", "Only a paragraph")


def test_the_sandbox_page_has_every_magic_value() -> None:
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \| (.+?) \|$", read_source("sandbox"), re.M)
    assert {(where.replace("`", ""), value, effect.replace("`", "")) for where, value, effect in rows} == set(
        MAGIC_VALUES
    )
