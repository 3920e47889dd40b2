"""Answers as vendors and gateways really write them: each is read as its owner would have it."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from domain import clock
from domain.connectors.fixes import positions_of
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, InboundRequest, VendorFix, VendorPage
from domain.ids import new_id
from tests.domain.connectors.cases import FOLDER, Answers, case

CASES = sorted(path.name for path in FOLDER.glob("*.json") if "kind" in json.loads(path.read_text()))


def pages_of(document: Any) -> list[VendorPage]:
    vendor = VENDORS[document["kind"]]()
    access = Access("http://vendor", document.get("credentials", {}))
    assert "credentials" not in document or vendor.faults_of(access.credentials) is None
    if "inbound" in document:
        return [vendor.read_inbound(InboundRequest({}, {}, json.dumps(document["inbound"]).encode()), access)]
    http, cursor, pages = Answers(document["answers"]), None, list[VendorPage]()
    for _ in range(document.get("pages", 1)):
        pages.append(asyncio.run(vendor.poll(cursor, access, http)))
        cursor = pages[-1].cursor
    assert not pages[-1].has_more
    return pages


def shown(fix: VendorFix, page: VendorPage) -> dict[str, Any]:
    vehicle = next(one for one in page.vehicles if one.key == fix.vehicle_key)
    return {
        "name": vehicle.name,
        "at": fix.recorded_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "latitude": fix.latitude,
        "longitude": fix.longitude,
        "mph": None if fix.speed_mph is None else pytest.approx(fix.speed_mph, abs=0.06),
        "fuel": None if fix.fuel_percent is None else pytest.approx(fix.fuel_percent, abs=0.01),
        "vin": vehicle.vin,
    }


@pytest.mark.parametrize("name", CASES)
def test_a_layout_that_people_have_is_read(name: str) -> None:
    document = case(name)
    now = datetime(2026, 11, 25, 20, 5, tzinfo=UTC)
    taken, left_out, refused = [], dict[str, int](), 0
    for page in pages_of(document):
        trucks = {vehicle.key: new_id() for vehicle in page.vehicles}
        assert len(trucks) == len(page.vehicles)
        for fix in page.fixes:
            positions, counts = positions_of([fix], trucks, now=now)
            taken += [shown(fix, page)] if positions else []
            left_out |= counts
        refused += sum(page.refused.values())
    assert taken == document["right"]
    assert left_out == document.get("left_out", {})
    assert refused == document.get("refused", 0)


def test_every_case_stands_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text()
    files = sorted(path.name for path in FOLDER.iterdir() if path.suffix == ".json")
    assert [name for name in files if f"`{name}`" not in readme] == []


def test_an_id_of_another_system_makes_no_match_at_samsara() -> None:
    (page,) = pages_of(case("samsara_snapshot.json"))
    assert (list(page.vehicles[0].external_ids), list(page.vehicles[0].other_ids)) == ([], ["4102"])
    for key in ("unitNumber", "Truck Number", "unit_no", "fuelroute"):
        document = case("samsara_snapshot.json")
        document["answers"][0]["data"][0]["externalIds"] = {key: "4101"}
        assert list(pages_of(document)[0].vehicles[0].external_ids) == ["4101"]
    document["answers"][0]["data"][0]["externalIds"] = {"unitNumber": "7", "fleet": "4101"}
    document["credentials"]["unit_number_id"] = "fleet"
    vehicle = pages_of(document)[0].vehicles[0]
    assert (list(vehicle.external_ids), list(vehicle.other_ids)) == (["4101"], ["7"])


def test_a_level_with_a_time_of_its_own_keeps_it() -> None:
    (page,) = pages_of(case("flespi_telemetry.json"))
    assert page.fixes[0].fuel_measured_at == page.fixes[0].recorded_at - timedelta(minutes=4)


@pytest.mark.parametrize("headers", ["Authorization", "Host Name: x", "X: é", "X:", ": x", "X: a\nno colon"])
def test_headers_that_are_none_are_refused(headers: str) -> None:
    assert VENDORS["eld"]().faults_of({"api_key": "k", "headers": headers}) is not None


def test_a_gateway_that_is_told_nothing_to_know_us_by_is_refused() -> None:
    assert "api_key" in (VENDORS["eld"]().faults_of({}) or "")


@pytest.mark.parametrize(("zone", "age"), [("UTC", "(6.0 h ago)"), ("America/Chicago", "UTC, ")])
def test_a_test_shows_that_a_time_is_of_another_zone(zone: str, age: str) -> None:
    """The gateway writes local times without an offset."""
    local = datetime.now(ZoneInfo("America/Chicago")).replace(month=1, day=5, tzinfo=None)
    at = local.strftime("%Y-%m-%d %H:%M:%S")
    unit = {"truck_number": "4101", "coordinates": {"lat": 41.5, "lng": -88.1}, "timestamp": at}
    access = Access("http://vendor", {"api_key": "k", "description": json.dumps({"time_zone": zone})})
    moment = local.replace(tzinfo=ZoneInfo("America/Chicago")).astimezone(UTC)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clock, "now", lambda: moment)
        assert age in asyncio.run(VENDORS["eld"]().test(access, Answers([{"units": [unit]}])))


@pytest.mark.parametrize(
    ("now", "told", "at"),
    [
        ("06:31", "2026-11-01 01:30:00", "06:30"),  # for the first time: the second one is still to come
        ("07:31", "2026-11-01 01:30:00", "07:30"),
        ("08:31", "2026-11-01 02:30:00", "08:30"),
        ("07:31", "2026-11-01 01:30:00-05:00", "06:30"),
        ("07:31", "2026-11-01 06:30:00Z", "06:30"),
        ("06:01", "2026-11-01 00:59:00", "05:59"),
    ],
)
def test_a_local_time_of_the_hour_that_comes_twice_is_the_newest_that_has_come(now: str, told: str, at: str) -> None:
    """In Chicago clocks go back at 2:00 on 1 November 2026, which is 7:00 UTC."""
    unit = {"truck_number": "4101", "coordinates": {"lat": 41.5, "lng": -88.1}, "timestamp": told}
    access = Access("http://vendor", {"api_key": "k", "description": '{"time_zone": "America/Chicago"}'})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clock, "now", lambda: datetime.fromisoformat(f"2026-11-01T{now}:00Z"))
        page = asyncio.run(VENDORS["eld"]().poll(None, access, Answers([{"units": [unit]}])))
    assert [fix.recorded_at for fix in page.fixes] == [datetime.fromisoformat(f"2026-11-01T{at}:00Z")]
