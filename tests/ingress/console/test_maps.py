"""Pages with a map: what their policy allows, and the files that they load."""

import gzip
from typing import Any

import pytest
from pydantic import ValidationError

from domain.lifecycle import Role
from domain.settings import Settings
from ingress.console.base_map.tiles import tile_address
from ingress.console.browser import POLICY
from ingress.console.maps import map_policy, map_settings
from tests.ingress.console.conftest import World
from tests.ingress.console.test_routes import page_of, stored


def sources(policy: str) -> dict[str, set[str]]:
    return {name: set(rest) for name, *rest in (part.split() for part in policy.split(";"))}


def settings(**values: Any) -> Settings:
    return Settings(database_url="postgresql://nowhere/none", redis_url="redis://nowhere/0", **values)


def test_a_page_with_a_map_allows_our_own_worker_and_the_pictures_of_its_buttons_beside_what_all_pages_do() -> None:
    everywhere, with_map = sources(POLICY), sources(map_policy(settings()))
    added = {name: allowed - everywhere.get(name, set()) for name, allowed in with_map.items()}
    assert {name: allowed for name, allowed in added.items() if allowed} == {
        "worker-src": {"'self'"},
        "font-src": {"'self'"},
        "img-src": {"data:"},
    }
    assert all(everywhere[name] <= with_map[name] for name in everywhere)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://maps.example.com/styles/truck.json?key=1;script-src%20*", "https://maps.example.com"),
        ("http://10.0.0.5:8080/style.json", "http://10.0.0.5:8080"),
        ("https://[2001:db8::1]:8443/style.json", "https://[2001:db8::1]:8443"),
    ],
)
def test_an_operators_style_adds_its_own_server_alone(url: str, origin: str) -> None:
    own = settings(map_style_url=url)
    plain, styled = sources(map_policy(settings())), sources(map_policy(own))
    assert {name for name in styled if styled[name] != plain[name]} == {"img-src", "connect-src", "font-src"}
    assert all(styled[name] - plain[name] in (set(), {origin}) for name in styled)
    assert map_settings(own)["style"] == url


@pytest.mark.parametrize("url", ["https://user:secret@maps.example.com/style.json", "maps.example.com", "file:///etc"])
def test_an_address_that_is_none_for_browsers_is_refused(url: str) -> None:
    with pytest.raises(ValidationError) as refused:
        settings(map_style_url=url)
    assert "secret" not in str(refused.value)


def test_only_pages_with_a_map_have_its_policy_and_its_library(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(Role.VIEWER, fleet)
    with_map, without = browser.get(page_of(route_id)), browser.get("/routes")
    assert sources(with_map.headers["content-security-policy"])["worker-src"] == {"'self'"}
    assert "worker-src" not in without.headers["content-security-policy"]
    assert "maplibre-gl" in with_map.text
    assert "maplibre" not in without.text


def test_the_files_of_maps_are_kept_by_browsers_and_need_no_session(world: World) -> None:
    browser = world.browser()
    tile = browser.get(tile_address().format(z=3, x=2, y=2))
    assert tile.status_code == 200
    assert "immutable" in tile.headers["cache-control"]
    assert b"Chicago" in tile.content
    worker = browser.get("/static/maplibre-gl-worker.mjs?v=1")
    assert "immutable" in worker.headers["cache-control"]
    assert "worker-src" in worker.headers["content-security-policy"], "what a worker may fetch stands in its own file"
    script = browser.get("/static/map_style.js")
    assert script.headers["cache-control"] == "no-cache", "scripts name each other without a version"
    same = browser.get("/static/map_style.js", headers={"If-None-Match": script.headers["etag"]})
    assert (same.status_code, same.headers["cache-control"]) == (304, "no-cache"), "else the browser forgets the script"


@pytest.mark.parametrize("place", ["3/8/0", "9/0/0", "99999999/1/1", "0/99999999999999999999/0", "5/4/20"])
def test_a_tile_that_is_not_there_is_empty(world: World, place: str) -> None:
    answer = world.browser().get(f"/static/base-map/{place}")
    assert (answer.status_code, answer.content) == (200, b"")


def test_a_tile_is_packed_on_the_wire(world: World) -> None:
    with world.browser().stream("GET", "/static/base-map/3/2/2") as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert b"Chicago" in gzip.decompress(packed)
