"""Scenarios, as in `scenarios.py`, in which the fleet or the company changes, a dispatcher acts in the console, or the
scheduler finds work that nobody asked for."""

from datetime import UTC, datetime, timedelta

import httpx

from domain.fleet.mappings import store_mapping
from domain.ids import shown_id
from domain.operations.import_records import BROKE_OFF
from tests.factories import NEWARK, PERRYSBURG, route_body
from tests.faults.world import KILLED, SECONDS, World, insist, mapping_command
from tests.ingress.console.conftest import words
from tests.ingress.console.uploads import import_file, send
from tests.rows import named, stored_id
from tests.service import eventually

# --- The fleet changes -------------------------------------------------------------------------------------------


def map_a_unit_number(world: World) -> None:
    tms = world.tms()
    route_id = tms.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    tms.wait_for(route_id, "pending_mapping")
    world.strike()
    world.command(*mapping_command(tms, "X-77"))
    world.await_strike()
    tms.wait_for(route_id, "draft")


def import_vehicles(world: World) -> None:
    tms = world.tms()
    route_id = tms.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    tms.wait_for(route_id, "pending_mapping")
    file = world.processes.folder / "vehicles.csv"
    file.write_text("unit_number\nX-77\n")
    world.strike()
    world.command("vehicles", "import", "--company", tms.shown_company_id, str(file))
    world.await_strike()
    tms.wait_for(route_id, "draft")


def retire_a_truck(world: World) -> None:
    tms = world.tms()
    route_id, _ = tms.draft()
    world.strike()
    world.command("vehicles", "retire", "--company", tms.shown_company_id, tms.client.fleet.shown_trucks[0])
    world.await_strike()
    tms.wait_for(route_id, "pending_mapping")


def retire_a_company(world: World) -> None:
    """The command is not given again: the pass closes the routes that it has left. The pass may even be quicker, and
    die in its stead."""
    tms = world.tms()
    tms.draft()
    world.strike()
    status = world.processes.command("companies", "retire", tms.shown_company_id)
    assert status in (KILLED, 0)
    if world.point.function.endswith("retire_company") and world.when == "before":
        world.command("companies", "retire", tms.shown_company_id)
    eventually(lambda: tms.statuses(), lambda found: found == ["canceled"], SECONDS, "the end of the routes")
    assert tms.client.get("/v1/me").status_code == 401


def erase_a_driver(world: World) -> None:
    tms = world.tms()
    ended, _ = tms.started()
    tms.stand_at(NEWARK, at=datetime.now(UTC) + timedelta(seconds=30))
    tms.wait_for(ended, "completed")
    waiting, _ = tms.draft(stops=[PERRYSBURG, NEWARK])
    world.strike()
    driver = tms.client.fleet.shown_drivers[0]
    world.command("drivers", "erase", "--company", tms.shown_company_id, driver, "--yes")
    world.await_strike()
    tms.wait_for(waiting, "canceled")
    assert tms.route(ended)["status"] == "completed"
    with world.service.database.transaction() as connection:
        for table in ("routes", "messages", "drivers", "route_events", "audit_log"):
            found = named(connection).execute(
                f"SELECT FROM {table} AS it WHERE company_id = %s AND strpos(it::text, 'Ann Lee') > 0",
                (tms.company_id,),
            )
            assert found.rowcount == 0, table


def erase_a_company(world: World) -> None:
    tms = world.tms()
    tms.started()
    tms.draft(stops=[PERRYSBURG, NEWARK])
    world.strike()
    world.command("companies", "erase", tms.shown_company_id, "--yes")
    world.await_strike()
    with world.service.database.transaction() as connection:
        for table in ("companies", "routes", "messages", "positions", "tracks", "vehicles", "drivers", "api_keys"):
            column = "id" if table == "companies" else "company_id"
            found = named(connection).execute(f"SELECT FROM {table} WHERE {column} = %s", (tms.company_id,))
            assert found.rowcount == 0, table


# --- The console -------------------------------------------------------------------------------------------------


def enter_an_arrival(world: World) -> None:
    tms = world.tms()
    route_id, _ = tms.draft()
    browser = world.browser(tms)
    world.strike()
    moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    world.submit(browser, route_id, "stop-event", what="arrival 0", at=moment)
    world.await_strike()
    tms.wait_for(route_id, "active")
    world.expect_messages(tms, route_id, 1)
    assert len(tms.audited("route_actions.mark")) == _actions(world)


def plan_again(world: World) -> None:
    """Nothing has changed, so the plan stays, and the driver is told nothing."""
    tms = world.tms()
    route_id, _ = tms.started()
    browser = world.browser(tms)
    world.strike()
    world.submit(browser, route_id, "plan")
    world.await_strike()
    assert len(tms.audited("route_actions.plan")) == _actions(world)
    world.expect_messages(tms, route_id, 1)


def _actions(world: World) -> int:
    """The number of times that a person acted: again where the action was stored and not answered."""
    return 1 + (world.when == "after" or not world.point.commits)


def import_vehicles_in_the_console(world: World) -> None:
    """An import that was broken off says so, and the file is sent again."""
    tms = world.tms()
    route_id = tms.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    tms.wait_for(route_id, "pending_mapping")
    browser = world.browser(tms)
    insist(lambda: browser.get("/vehicles"))
    browser.look("/vehicles")
    world.strike()
    try:
        page = send(browser, "vehicles", "unit_number\nX-77\n")
    except httpx.TransportError:  # it died before it had answered
        page = f"/vehicles/imports/{shown_id('imp', tms.newest_import_id())}"
    world.await_strike()
    ended = eventually(
        lambda: insist(lambda: browser.get(page)).text,
        lambda text: "You may leave this page" not in words(text),
        SECONDS,
        "the end of the import",
    )
    if BROKE_OFF["vehicles"].partition(":")[0] in words(ended):
        import_file(browser, "vehicles", "unit_number\nX-77\n")
    tms.wait_for(route_id, "draft")
    (entry,) = tms.audited("import")
    assert entry.affected == 1


# --- The scheduler -----------------------------------------------------------------------------------------------


def lose_the_hint_of_a_push(world: World) -> None:
    """Nobody asked for its import: the sweep finds it."""
    tms = world.tms()
    held = tms.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    tms.wait_for(held, "pending_mapping")
    world.strike()
    with world.service.database.transaction() as connection:
        connection.execute(
            "UPDATE routes SET status = 'pending', pending_reason = 'not_attempted', retry_at = now(),"
            " vehicle_unit_number = '102' WHERE id = %s",
            (stored_id(held),),
        )
    tms.wait_for(held, "draft")
    world.await_strike()


def lose_the_hint_of_a_mapping(world: World) -> None:
    """Nobody asked for the import of the routes that waited: the pass finds them."""
    tms = world.tms()
    route_id = tms.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    tms.wait_for(route_id, "pending_mapping")
    with world.service.database.transaction() as connection:
        store_mapping(connection, tms.company_id, "unit_number", "X-77", tms.client.fleet.trucks[1])
    world.strike()
    tms.wait_for(route_id, "draft")
    world.await_strike()


def change_the_counts(world: World) -> None:
    tms = world.tms()
    world.strike()
    tms.draft()
    world.await_strike()
