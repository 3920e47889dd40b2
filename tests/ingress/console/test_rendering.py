"""The templates of pages: words for the names of the API and for times, and addresses."""

import re
from pathlib import Path

import pytest
from starlette.routing import Match

from domain.lifecycle import PendingReason, RouteStatus
from domain.planning.relaxation import PlanLimits
from ingress import console
from ingress.console.app import PAGES
from ingress.console.rendering import LIMIT_WORDS, REASON_WORDS, state_words

TEMPLATES = sorted((Path(console.__file__).parent / "templates").glob("*.html"))

_LINK = re.compile(r'\b(?:href|hx-get)="(/[\w.-]+(?:/[^"?#]*)?)')
"""The address of a link whose first folder is written out."""


def test_every_name_with_an_underscore_has_words() -> None:
    assert set(REASON_WORDS) == set(map(str, PendingReason))
    assert set(LIMIT_WORDS) == {*PlanLimits._fields, "margin_gallons"}, "plans of earlier versions had a margin"
    said = [state_words(status, reason) for status in RouteStatus for reason in (None, *PendingReason)]
    assert [words for words in said if "_" in words] == []


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("pending_window", "outside_import_window", "held: starts beyond the import window"),
        ("pending_window", None, "held: starts beyond the import window"),
        ("pending_mapping", "vehicle_unmapped", "held: vehicle not matched"),
        ("pending_mapping", None, "held: not matched"),
        ("pending", "not_attempted", "being imported"),
        ("pending", "error", "import failed, tried again"),
        ("active", None, "active"),
    ],
)
def test_a_badge_says_what_holds_a_route(status: str, reason: str | None, said: str) -> None:
    assert state_words(status, reason) == said


def test_no_page_says_until_in_three_hours_or_since_three_hours_ago() -> None:
    words = re.compile(r"\b(?:until|at|is|since) \{\{ when\(.*")
    relative = [found for one in TEMPLATES for found in words.findall(one.read_text())]
    assert relative == [], "after these words stands the time itself: absolute() says it"


def test_every_link_of_a_template_leads_to_a_page() -> None:
    routes = [route for page in PAGES for route in page.ADDRESSES]
    links = [(one.name, link) for one in TEMPLATES for link in _LINK.findall(_filled(one.read_text()))]
    scopes = [(name, {"type": "http", "method": "GET", "path": link}) for name, link in links]
    assert [one for one in scopes if not any(route.matches(one[1])[0] is Match.FULL for route in routes)] == []
    assert len(links) > 100


def _filled(template: str) -> str:
    """The template without its statements, and with {} for each value."""
    without = re.sub(r"\{%.*?%\}", "", template, flags=re.DOTALL)
    return re.sub(r"\{\{.*?\}\}", "{}", without, flags=re.DOTALL)


def test_a_part_that_updates_itself_keeps_focus_and_is_read_out_only_when_it_has_news() -> None:
    """One that was replaced each second lost both."""
    swaps = {
        (template.name, swap)
        for template in TEMPLATES
        for swap in re.findall(r'hx-trigger="every [^>]*?hx-swap="(\w+)"', template.read_text())
    }
    assert len(swaps) == 9
    assert {swap for _, swap in swaps} == {"outerMorph"}
