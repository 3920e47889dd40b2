"""Forms return what people typed; times are relative and absolute; fragments of pages."""

from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import quote, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from domain.lifecycle import Role
from ingress.console.browser import BadForm, Form, own_path, read_query
from ingress.console.rendering import make_templates, relative, when
from tests.ingress.console.conftest import World

NOW = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)


def form_of(query: bytes) -> Form:
    return read_query(Request({"type": "http", "query_string": query, "headers": []}))


@given(TEXTS)
def test_a_packed_text_comes_back_as_it_was(text: str) -> None:
    """A packed text has no ends of lines, so a browser cannot change them."""
    packed = make_templates().from_string("{{ text|pack }}").render(text=text)
    assert packed.isascii()
    assert not set(packed) & set("\r\n \"'<>&+")
    assert form_of(urlencode({"value": packed}).encode()).packed("value") == text


@given(st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=5))
def test_every_field_is_read(fields: dict[str, str]) -> None:
    form = form_of(urlencode(fields).encode())
    assert all(form.secret(name) == value for name, value in fields.items())


@given(st.binary(max_size=200))
def test_any_address_is_read(query: bytes) -> None:
    form = form_of(query)
    assert all("\x00" not in value for values in form.values.values() for value in values)
    assert 0 <= form.number("page") <= 1_000_000


@pytest.mark.parametrize(
    ("given_text", "number"), [("7", 7), ("-1", 0), ("", 0), ("x", 0), ("²", 0), ("9" * 30, 1_000_000), (" 7", 0)]
)
def test_numbers_stay_within_bounds(given_text: str, number: int) -> None:
    assert form_of(urlencode({"page": given_text}).encode()).number("page") == number


def test_a_value_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadForm, match="too long"):
        form_of(b"name=" + b"x" * 201).text("name")


@given(st.text(max_size=40) | st.text("/\\.:evl@?#\t", max_size=12))
def test_signing_in_leads_to_our_own_pages(path: str) -> None:
    there = own_path(path)
    assert there.startswith("/")
    assert not there.startswith(("//", "/\\"))
    assert not urlsplit(there).netloc


@pytest.mark.parametrize(
    ("distance", "told"),
    [
        (timedelta(), "now"),
        (timedelta(seconds=-59), "now"),
        (timedelta(minutes=-1), "1 min ago"),
        (timedelta(hours=2, minutes=59), "in 2 h"),
        (timedelta(days=1), "in 1 day"),
        (timedelta(days=-400), "400 days ago"),
    ],
)
def test_times_are_shown_relative_to_now(distance: timedelta, told: str) -> None:
    assert relative(NOW + distance, NOW) == told


def test_times_are_shown_in_the_companys_zone() -> None:
    assert when(NOW, NOW, "America/Chicago") == (
        '<time datetime="2026-11-20T12:00:00+00:00">now <span class="absolute">Nov 20, 2026 06:00 CST</span></time>'
    )


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata"]),
)
def test_any_time_can_be_shown(moment: datetime, time_zone: str) -> None:
    assert f"{moment:%M}" in when(moment, NOW, "UTC")
    assert when(moment, NOW, time_zone).startswith("<time")


@pytest.mark.parametrize(
    ("moment", "time_zone"), [(datetime.max, "Pacific/Kiritimati"), (datetime.min, "America/Chicago")]
)
def test_a_time_beyond_the_zone_is_shown_in_utc(moment: datetime, time_zone: str) -> None:
    assert "UTC" in when(moment.replace(tzinfo=UTC), NOW, time_zone)


def test_a_refused_part_of_a_page_is_shown_on_top_and_leaves_the_rest(world: World) -> None:
    answer = world.browser(Role.VIEWER).submit("/matching/vehicles/map", part=True, value=quote("X"))
    assert answer.status_code == 403
    assert (answer.headers["HX-Retarget"], answer.headers["HX-Reswap"]) == ("#notices", "innerMorph")
    assert "<html" not in answer.text


@pytest.mark.parametrize(
    ("page", "next_path"),
    [
        ("/matching/vehicles?q=a%20b#TRUCK", "/matching/vehicles?q=a%20b"),
        ("", None),
        ("//evil.example/x", "/"),
        ("/sign-in/../keys", "/sign-in/../keys"),
        (f"/keys?q={'x' * 1000}", "/keys"),
    ],
)
def test_a_part_of_a_page_leads_to_the_sign_in_and_back_to_its_page(
    world: World, page: str, next_path: str | None
) -> None:
    browser = world.browser()
    headers = {"HX-Request": "true", "HX-Current-URL": f"{world.url}{page}"}
    answer = browser.get("/matching/vehicles/candidates?kind=vin", headers=headers)
    assert answer.text == ""
    path, _, query = answer.headers["HX-Redirect"].partition("?")
    assert (path, bool(query)) == ("/sign-in", next_path is not None)
    assert f'name="next" value="{next_path or "/"}"' in unescape(browser.look(answer.headers["HX-Redirect"]))


@pytest.mark.parametrize("headers", [{}, {"HX-Current-URL": "http://["}, {"HX-Current-URL": "x"}])
def test_a_part_without_a_page_leads_to_the_sign_in(world: World, headers: dict[str, str]) -> None:
    answer = world.browser().get("/overview", headers={"HX-Request": "true", **headers})
    assert answer.headers["HX-Redirect"].partition("?")[0] == "/sign-in"
    assert 'name="next" value="/"' in world.browser().look(answer.headers["HX-Redirect"])
