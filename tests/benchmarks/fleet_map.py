"""The page Map with a large fleet, in Chromium without a graphics card: until the trucks are drawn, and while the map
is moved. The fleet has TRUCKS trucks, whatever `--routes` says."""

import time
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from playwright.sync_api import Browser

from domain.database import Tenant
from domain.lifecycle import Environment, Role
from domain.routes.reading.fleet_now import read_fleet
from domain.visibility import SERVICE_ROLE, of_companies, set_visibility
from tests.benchmarks.harness import Bench, Figure, Stack
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.map_fleet import load_map_fleet
from tests.browser.chromium import NO_CHROMIUM, find_chromium, running_chromium
from tests.browser.conftest import add_session
from tests.browser.pages import Site

TRUCKS = 10_000

_DRAWN = """
    () => new Promise((done) => {
        const look = () => fleet.map?.getSource("fleet")
            && fleet.map.queryRenderedFeatures({ layers: ["clusters", "trucks"] }).length
            ? done(performance.now()) : requestAnimationFrame(look);
        look();
    })
"""
"""Milliseconds from the beginning of the navigation until trucks are drawn."""

_PANNED = """
    ([zoom, seconds]) => new Promise((done) => {
        const map = fleet.map;
        map.jumpTo({ center: [-100, 39], zoom });
        map.once("idle", () => {
            let frames = 0;
            const count = () => { frames++; };
            const began = performance.now();
            map.on("render", count);
            map.once("moveend", () => {
                map.off("render", count);
                done(frames / (performance.now() - began) * 1000);
            });
            map.panBy([150 * seconds, 40 * seconds], { duration: 1000 * seconds, easing: (part) => part });
        });
    })
"""
"""Frames a second while the map is moved, evenly, over so many seconds."""

_ZOOMS = {"of the whole country": 3.6, "of some states": 5.5, "of single trucks": 10.0}


def run(bench: Bench) -> list[Figure]:
    path = find_chromium()
    if path is None:
        raise LoadFailed(NO_CHROMIUM)
    with bench.stack("map") as stack, running_chromium(path) as chromium:
        with bench.task(f"map: loads {TRUCKS:,} trucks"):
            company_id = load_map_fleet(stack.database, TRUCKS).company_id
        console = stack.start_console()
        site = Site(f"http://{console[0]}:{console[1]}", stack.database, company_id)
        read = bench.alternate("map", {"reads the fleet": partial(_read, stack, company_id)})
        seen = bench.alternate("map", {"shows the fleet": partial(_show, site, chromium, bench.seconds)})
    shown = seen["shows the fleet"]
    return [
        Figure(f"map: {TRUCKS:,} trucks, read from the database", "ms", read["reads the fleet"]),
        Figure(f"map: {TRUCKS:,} trucks, drawn", "s", [drawn for drawn, _ in shown], at_most=2),
        *(
            Figure(
                f"map: {TRUCKS:,} trucks, moved, {name}", "frames/s", [rates[name] for _, rates in shown], at_least=15
            )
            for name in _ZOOMS
        ),
    ]


def _read(stack: Stack, company_id: UUID) -> float:
    with stack.database.transaction() as connection:
        connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
        set_visibility(connection, of_companies((company_id,)))
        began = time.perf_counter()
        read_fleet(connection, Tenant(company_id, Environment.LIVE), now=datetime.now(UTC))
        return (time.perf_counter() - began) * 1000


def _show(site: Site, chromium: Browser, seconds: float) -> tuple[float, dict[str, float]]:
    """Seconds until a fresh browser shows the trucks; frames a second at each zoom."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    try:
        add_session(context, site.url, site.cookie(Role.DISPATCHER))
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{site.url}/map")
        page.wait_for_selector("#fleet[data-ready]")
        drawn = page.evaluate(_DRAWN) / 1000
        rates = {name: page.evaluate(_PANNED, [zoom, seconds]) for name, zoom in _ZOOMS.items()}
    finally:
        context.close()
    return drawn, rates
