"""The page Map with a large fleet, in Chromium without a graphics card: until the trucks are drawn, and while the map
is moved. The fleet has TRUCKS trucks, whatever `--routes` says."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from playwright.sync_api import Browser, Page

from domain.database.connections import Tenant
from domain.database.visibility import SERVICE_ROLE, of_companies, set_visibility
from domain.lifecycle import Environment, Role
from domain.routes.reading.fleet_now import read_fleet
from tests.benchmarks.harness import Bench, Figure, Stack
from tests.benchmarks.load import Address, LoadFailed, drive, send
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
    ([zoom, seconds, trucks]) => new Promise((done) => {
        const map = fleet.map;
        for (const id of ["clusters", "numbers", "trucks", "headings"])
            map.setLayoutProperty(id, "visibility", trucks ? "visible" : "none");
        map.jumpTo({ center: [-100, 39], zoom });
        map.once("idle", () => {
            let frames = 0;
            const count = () => { frames++; };
            const began = performance.now();
            map.on("render", count);
            map.once("moveend", () => {
                map.off("render", count);
                done([frames, (performance.now() - began) / 1000]);
            });
            map.panBy([150 * seconds, 40 * seconds], { duration: 1000 * seconds, easing: (part) => part });
        });
    })
"""
"""Moves the map evenly for so many seconds. Gives the frames that were drawn, and the seconds that it took."""

_ZOOMS = {"the whole country": 3.6, "some states": 5.5, "single trucks": 10.0}

_PATHS = ("/overview", "/map", "/map?need=late")
"""The pages without their scripts."""


class Moved(NamedTuple):
    """The map while it is moved."""

    frames_per_second: float
    processor_ms: float
    """The processor time of one frame in all of Chromium: the same on a busy machine."""


class Shown(NamedTuple):
    """One visit to the page."""

    drawn_seconds: float
    processors: str
    """The processor time until then."""
    moved: dict[tuple[str, bool], Moved]
    """The map while it is moved, by what is seen and whether the trucks are."""


def run(bench: Bench) -> list[Figure]:
    path = find_chromium()
    if path is None:
        raise LoadFailed(NO_CHROMIUM)
    with bench.stack("map") as stack:
        with bench.task(f"map: loads {TRUCKS:,} trucks"):
            company_id = load_map_fleet(stack.database, TRUCKS).company_id
        console = stack.start_console()
        site = Site(f"http://{console[0]}:{console[1]}", stack.database, company_id)
        read = bench.alternate("map", {"read": partial(_read, stack, company_id)})["read"]
        asked = bench.alternate("map", {path: partial(_ask, console, site, path, bench.seconds) for path in _PATHS})
        with running_chromium(path) as chromium:
            shown = bench.alternate("map", {"show": partial(_show, stack, site, chromium, bench.seconds)})["show"]
    name = f"map: {TRUCKS:,} trucks"
    drawn = [one.drawn_seconds for one in shown]
    return [
        Figure(f"{name}, read from the database", "ms", read),
        *(Figure(f"{name}, {path}, p50", "ms", asked[path], at_most=150) for path in _PATHS),
        Figure(f"{name}, drawn", "s", drawn, at_most=2, note=shown[-1].processors),
        *(figure for what in _ZOOMS for figure in _of_moves(name, what, shown)),
    ]


def _of_moves(name: str, what: str, shown: Sequence[Shown]) -> Iterator[Figure]:
    full, bare = ([one.moved[what, trucks] for one in shown] for trucks in (True, False))
    note = f"{full[-1].processor_ms:.0f} ms of processors a frame, {bare[-1].processor_ms:.0f} of the base map alone"
    rates = [one.frames_per_second for one in full]
    yield Figure(f"{name}, moved, {what}", "frames/s", rates, at_least=15, note=note)
    yield Figure(f"map: without trucks, moved, {what}", "frames/s", [one.frames_per_second for one in bare])


def _read(stack: Stack, company_id: UUID) -> float:
    with stack.database.transaction() as connection:
        connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
        set_visibility(connection, of_companies((company_id,)))
        began = time.perf_counter()
        read_fleet(connection, Tenant(company_id, Environment.LIVE), now=datetime.now(UTC))
        return (time.perf_counter() - began) * 1000


def _ask(console: Address, site: Site, path: str, seconds: float) -> float:
    """Milliseconds of the page, at the median."""
    request = f"GET {path} HTTP/1.1\r\nHost: bench\r\nCookie: fuelroute={site.cookie(Role.DISPATCHER)}\r\n\r\n"
    requests = itertools.repeat(request.encode())
    return drive(send([console], requests, expect=200, seconds=seconds, connections=1)).percentile(50)


def _show(stack: Stack, site: Site, chromium: Browser, seconds: float) -> Shown:
    """A fresh browser shows the trucks, and moves the map."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    try:
        add_session(context, site.url, site.cookie(Role.DISPATCHER))
        page = context.new_page()
        page.set_default_timeout(120_000)
        before = stack.cpu_seconds() | {"chromium": _chromium_seconds()}
        page.goto(f"{site.url}/map")
        page.wait_for_selector("#fleet[data-ready]")
        drawn = page.evaluate(_DRAWN) / 1000
        after = stack.cpu_seconds() | {"chromium": _chromium_seconds()}
        spent = {name: after[name] - before[name] for name in ("postgres", "console", "chromium")}
        moved = {
            (what, trucks): _move(page, zoom, seconds, trucks=trucks)
            for what, zoom in _ZOOMS.items()
            for trucks in (True, False)
        }
    finally:
        context.close()
    processors = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in spent.items())
    return Shown(drawn, f"processor time: {processors}", moved)


def _move(page: Page, zoom: float, seconds: float, *, trucks: bool) -> Moved:
    before = _chromium_seconds()
    frames, took = page.evaluate(_PANNED, [zoom, seconds, trucks])
    return Moved(frames / took, 1000 * (_chromium_seconds() - before) / frames)


def _chromium_seconds() -> float:
    """The processor time of the processes of Chromium that are children of this one, so far."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, fields = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        parts = fields.split()
        parents[int(entry.name)] = int(parts[1])
        if name.startswith("chrom"):
            spent[int(entry.name)] = (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(seconds for pid, seconds in spent.items() if is_ours(pid))
