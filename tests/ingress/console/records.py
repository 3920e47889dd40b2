"""Records of the pages Fleet, Stations and Policy, as their forms show them and as they are stored."""

import re
from typing import Any

from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, Fields, World


def form_of(browser: Browser, path: str, id: str = "") -> Fields:
    """The fields of a record's form as they stand on its page."""
    page = browser.look(path, id=id) if id else browser.look(path)
    page = page[page.index("<main") :]
    found = re.findall(r'<input (?:type="hidden" )?name="(\w+)" value="([^"]*)"', page)
    return {name: value for name, value in found if name not in ("form_token", "q", "retired", "force")}


def seen_on(browser: Browser, path: str) -> str:
    """The state of what a page shows, which its form sends back."""
    return str(re.findall(r'name="seen" value="(\w+)"', browser.look(path))[0])


def stored_rows(world: World, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with world.database.transaction() as connection:
        return connection.execute(sql, parameters).fetchall()


def vehicles_of(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    return stored_rows(
        world,
        "SELECT id, unit_number, vin, license_plate, make, model, year, fuel_tank_capacity_gallons, mpg FROM vehicles"
        " WHERE company_id = %s AND retired_at IS NULL ORDER BY id",
        fleet.company_id,
    )


def drivers_of(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    return stored_rows(
        world,
        "SELECT id, name, display_name, external_id, contact FROM drivers"
        " WHERE company_id = %s AND retired_at IS NULL ORDER BY id",
        fleet.company_id,
    )
