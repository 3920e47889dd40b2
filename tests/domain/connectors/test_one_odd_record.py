"""One record that nobody can read costs itself, in every connector and every shape: the page goes on."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, InboundRequest, VendorPage
from tests.domain.connectors.cases import Answers, case

AT = "2026-11-25T20:00:00Z"
ACCESS = Access("http://vendor", {"token": "t", "api_key": "k", "database": "d", "username": "u", "password": "p"})


def samsara(number: int, at: object) -> Any:
    gps = [{"time": at, "latitude": 41.462, "longitude": -88.125, "speedMilesPerHour": 61}]
    return {"id": str(number), "name": str(number), "gps": gps}


def motive(number: int, at: object) -> Any:
    location = {"lat": 41.462, "lon": -88.125, "located_at": at, "speed": 61}
    return {"vehicle": {"id": number, "number": str(number), "current_location": location}}


def geotab(number: int, at: object) -> Any:
    return {"device": {"id": f"b{number}"}, "dateTime": at, "latitude": 41.462, "longitude": -88.125, "speed": 98}


def traccar(number: int, at: object) -> Any:
    return {"id": number, "deviceId": number, "fixTime": at, "latitude": 41.462, "longitude": -88.125, "speed": 53}


def eld(number: int, at: object) -> Any:
    return {"truck_number": str(number), "coordinates": {"lat": 41.462, "lng": -88.125}, "timestamp": at}


def answers(kind: str, records: list[Any]) -> list[Any]:
    signed_in = {"result": {"credentials": {"sessionId": "s"}, "path": "ThisServer"}}
    match kind:
        case "samsara":
            return [{"data": records, "pagination": {"endCursor": "a", "hasNextPage": False}}]
        case "motive":
            return [{"vehicles": records, "pagination": {"per_page": 25, "page_no": 1, "total": len(records)}}]
        case "geotab":
            feeds = [{"result": {"data": data, "toVersion": "01"}} for data in ([], records)]
            return [signed_in, *feeds, {"result": [{"id": "b1", "name": "1"}, {"id": 7}, None]}]
        case "traccar":
            return [records, [{"id": 1, "name": "1"}, {"id": None}, "device"]]
    return [{"units": records}]


RECORD = {"samsara": samsara, "motive": motive, "geotab": geotab, "traccar": traccar, "eld": eld}
NUMBERS = [
    1795636800,
    1795636800000,
    "1795636800000",
    1795636800000000,
    "2026-11-25T20:00:00",
    "2026-11-25T15:00:00-05:00",
]


def asked(kind: str, records: list[Any]) -> VendorPage:
    return asyncio.run(VENDORS[kind]().poll(None, ACCESS, Answers(answers(kind, records))))


@pytest.mark.parametrize("kind", RECORD)
@pytest.mark.parametrize(
    "odd", [None, "text", 7, [], {}, {"id": {}, "deviceId": [], "vehicle": 7, "device": True}, "time"]
)
def test_the_others_are_read(kind: str, odd: object) -> None:
    record = RECORD[kind](2, "yesterday") if odd == "time" else odd
    page = asked(kind, [record, RECORD[kind](1, AT)])
    assert [fix.recorded_at for fix in page.fixes] == [datetime.fromisoformat(AT)]
    assert page.fixes[0].speed_mph in (None, pytest.approx(61, abs=0.5))
    assert sum(page.refused.values()) == 1


@pytest.mark.parametrize("kind", RECORD)
@pytest.mark.parametrize("at", NUMBERS)
def test_a_time_may_be_a_number_or_lack_its_offset(kind: str, at: object) -> None:
    page = asked(kind, [RECORD[kind](1, at)])
    assert [fix.recorded_at for fix in page.fixes] == [datetime(2026, 11, 25, 20, tzinfo=UTC)]


@pytest.mark.parametrize("kind", RECORD)
def test_a_number_out_of_every_range_costs_its_record(kind: str) -> None:
    text = json.dumps(answers(kind, [RECORD[kind](1, AT), RECORD[kind](2, AT)])[-1 if kind == "eld" else 0])
    if kind == "geotab":
        return  # its records come in the third answer, read by the same function
    broken = text.replace("41.462", "1e999", 1).encode()
    page = asyncio.run(VENDORS[kind]().poll(None, ACCESS, Answers([broken, *answers(kind, [])[1:]])))
    assert len(page.fixes) == 1
    assert page.refused == {"unreadable": 1}


def test_traccar_forwards_times_as_numbers_of_milliseconds() -> None:
    document = case("traccar_numbers.json")
    vendor = VENDORS["traccar"]()
    page = vendor.read_inbound(InboundRequest({}, {}, json.dumps(document).encode()), ACCESS)
    assert [(fix.recorded_at, fix.fuel_percent) for fix in page.fixes] == [
        (datetime.fromtimestamp(1754726627, UTC), 62.0)
    ]
    assert page.vehicles[0].name == "4101"


@pytest.mark.parametrize("at", NUMBERS)
def test_motive_s_webhook_takes_any_time_too(at: object) -> None:
    body = {"action": "vehicle_location_updated", "vehicle_id": 7, "lat": 41.5, "lon": "-88.1", "located_at": at}
    page = VENDORS["motive"]().read_inbound(InboundRequest({}, {}, json.dumps(body).encode()), ACCESS)
    assert [fix.recorded_at for fix in page.fixes] == [datetime(2026, 11, 25, 20, tzinfo=UTC)]


@pytest.mark.parametrize("kind", RECORD)
def test_a_fuel_level_that_is_no_number_costs_itself_and_is_counted(kind: str) -> None:
    told = {
        "samsara": {"fuelPercents": [{"time": AT, "value": "full"}]},
        "traccar": {"attributes": {"fuelLevel": "full"}},
        "eld": {"fuel_percent": "full"},
    }
    record = RECORD[kind](1, AT) | told.get(kind, {})
    if kind == "motive":
        record["vehicle"]["current_location"]["fuel_primary_remaining_percentage"] = "full"
    pages = answers(kind, [record])
    if kind == "geotab":
        pages[1]["result"]["data"] = [{"device": {"id": "b1"}, "dateTime": AT, "data": "full"}]
    page = asyncio.run(VENDORS[kind]().poll(None, ACCESS, Answers(pages)))
    assert [fix.fuel_percent for fix in page.fixes] == [None]
    assert page.refused == {"unreadable_fuel": 1}
