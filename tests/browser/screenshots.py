"""Pictures of every page of the console, from the running demo.

python -m tests.browser.screenshots                 # the small ones of the console's README
python -m tests.browser.screenshots --only policy   # some of them
python -m tests.browser.screenshots FOLDER          # every page whole, in both themes, at every width, to look at
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page

from domain.contract.shapes import VehicleQuery
from domain.database.connections import Database
from domain.fleet.api_lists import list_vehicles
from domain.ids import read_id
from domain.lifecycle import Role
from domain.routes.intake.fleet_changes import add_mapping
from domain.settings import DEMO_FILE, STACK_FILE
from tests.browser.chromium import NO_CHROMIUM, THEMES, WIDTHS, Theme, find_chromium, running_chromium
from tests.browser.pages import PAGES, SHOWN, WITH_MAP, Site, Visit, wait_for_maps
from tests.factories import DOT
from tests.service import eventually

SMALL = Path(__file__).parents[2] / "ingress" / "console" / "screenshots"
_WIDTH, _MOST_HEIGHT = 1280, 900
_COLORS, _COLORS_OF_MAPS = 48, 160
MOST_BYTES, MOST_BYTES_WITH_MAP = 80_000, 200_000
"""The size of a small picture."""


@contextmanager
def running_demo() -> Iterator[Site]:
    """`fuelroute up --demo` on data of its own, once its trucks have been driven."""
    with tempfile.TemporaryDirectory(prefix="fuelroute-screenshots-") as folder:
        data, said = Path(folder, "data"), Path(folder, "said")
        command = ("-c", "from deploy.cli import main; main()", "up", "--demo", "--port", "0", "--data", str(data))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUELROUTE_")}
        with said.open("w") as screen:
            up = subprocess.Popen([sys.executable, *command], stdout=screen, stderr=subprocess.STDOUT, env=environment)
        try:
            eventually(said.read_text, lambda text: "now you" in text, 180, "the demo")
            stack, demo = (json.loads((data / name).read_text()) for name in (STACK_FILE, DEMO_FILE))
            company_id = read_id("cmp", demo["company_id"])
            assert company_id is not None
            with Database(stack["database_url"]) as database:
                with database.transaction() as connection:  # the demo maps nothing: people do
                    truck = list_vehicles(connection, company_id, VehicleQuery(limit=1)).data[0]
                    vehicle_id = read_id("veh", truck.id)
                    assert vehicle_id is not None
                    add_mapping(connection, company_id, "unit_number", f"TRK {truck.unit_number}", vehicle_id, DOT)
                _fail(demo)
                yield Site(stack["console_url"], database, company_id)
        finally:
            up.terminate()
            up.wait(timeout=120)


def _fail(demo: dict[str, Any]) -> None:
    """Push a load with mistakes: people open the page of a request because of one."""
    body = {"externalId": "DEMO-8", "vehicle": {"unitNumber": "4101"}, "scheduledStart": "tomorrow", "stops": []}
    headers = {"Authorization": f"Bearer {demo['live_key']}"}
    assert httpx.post(f"{demo['url']}/v1/routes", headers=headers, json=body, timeout=120).status_code == 400


def open_page(browser: Browser, site: Site, visit: Visit, cookies: dict[Role, str]) -> Page:
    context = browser.new_context(base_url=site.url, reduced_motion="reduce")
    if visit.role is not None:
        context.add_cookies([{"name": "fuelroute", "value": cookies[visit.role], "url": site.url}])
    page = context.new_page()
    page.goto(visit.path_in(site))
    wait_for_maps(page)
    if visit.act is not None:
        visit.act(page)
        page.wait_for_load_state()
    return page


def take(page: Page, theme: Theme, width: int, most_height: int) -> bytes:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    height = min(page.evaluate("document.documentElement.scrollHeight"), most_height)
    return page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})


def make_small(png: bytes, *, with_map: bool = False) -> bytes:
    """Save the picture with a palette."""
    small = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(_COLORS_OF_MAPS if with_map else _COLORS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main(folder: Path | None, only: Sequence[str]) -> None:
    path = find_chromium()
    if path is None:
        sys.exit(NO_CHROMIUM)
    target = folder or SMALL
    target.mkdir(parents=True, exist_ok=True)
    with running_demo() as site, running_chromium(path) as browser:
        cookies = {role: site.cookie(role, f"{role}@prairie.example") for role in Role}
        for visit in SHOWN if folder is None else PAGES:
            if only and visit.name not in only:
                continue
            page = open_page(browser, site, visit, cookies)
            if folder is None:
                small = make_small(take(page, "light", _WIDTH, _MOST_HEIGHT), with_map=visit.name in WITH_MAP)
                (target / f"{visit.name}.png").write_bytes(small)
                print(f"{visit.name}.png {len(small) / 1000:.0f} kB")
            else:
                for theme in THEMES:
                    for width in WIDTHS:
                        (target / f"{visit.name}-{theme}-{width}.png").write_bytes(take(page, theme, width, 4000))
            page.context.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Takes pictures of the console's pages, from the running demo.")
    parser.add_argument("folder", type=Path, nargs="?", help="Takes whole pages for it, in both themes.")
    parser.add_argument("--only", nargs="+", default=[], metavar="PAGE", help="Takes these pages alone.")
    options = parser.parse_args()
    main(options.folder, options.only)
