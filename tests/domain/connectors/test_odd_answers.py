"""Whatever a vendor answers costs a poll at most: a page comes of it, or a VendorFault."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.connectors.kinds.eld import EldGateway
from domain.connectors.kinds.geotab import Geotab
from domain.connectors.kinds.motive import Motive
from domain.connectors.kinds.samsara import Samsara
from domain.connectors.kinds.traccar import Traccar
from domain.connectors.vendor import Access, InboundRequest, Vendor, VendorAnswer, VendorFault, VendorPage
from domain.connectors.vendor_http import BoundedHttp

AT = "2026-11-24T09:00:00Z"
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", AT, "", "-1", "1e400", "٣"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)

LOCATION = {"lat": 41.5, "lon": -88.1, "located_at": AT, "speed": 60, "fuel_primary_remaining_percentage": None}
LOCATIONS = {
    "vehicles": [{"vehicle": {"id": 7, "number": "101", "vin": None, "current_location": LOCATION}}],
    "pagination": {"per_page": 25, "page_no": 1, "total": 1},
}
WEBHOOK = {"action": "vehicle_location_updated", "vehicle_id": 7, **LOCATION}
UNITS = {"units": [{"truck_number": "7", "vin": "", "coordinates": {"lat": 1.5, "lng": 2.5}, "timestamp": AT}]}
PAGE = {
    "result": {
        "data": [
            {"device": {"id": "b1"}, "dateTime": AT, "latitude": 1.5, "longitude": 2, "speed": 90, "data": 50},
        ],
        "toVersion": "01",
        "credentials": {"sessionId": "s"},
        "path": "ThisServer",
    }
}
STATS = {
    "data": [
        {
            "id": "7",
            "name": "101",
            "externalIds": {"samsara.vin": "x", "maintenanceId": "102"},
            "gps": [{"time": AT, "latitude": 41.5, "longitude": -88.1, "speedMilesPerHour": 60}],
            "fuelPercents": [{"time": AT, "value": 50}],
        }
    ],
    "pagination": {"endCursor": "a", "hasNextPage": False},
}
POSITION = {
    "id": 1,
    "deviceId": 7,
    "fixTime": AT,
    "latitude": 41.5,
    "longitude": -88.1,
    "attributes": {"fuelLevel": 50},
}
POSITIONS = [{**POSITION, "valid": True, "outdated": False, "deviceTime": AT, "name": "101", "uniqueId": "7"}]
FORWARDED = {"position": POSITION, "device": {"id": 7, "name": "101", "attributes": {"fuelCapacity": 700}}}
FAILED = {"error": {"message": "no", "errors": [{"name": "OverLimitException", "message": "slow"}]}}


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a document."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        inner = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document))
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[key] = changed(copy[key], tuple(rest), value)
    return copy


def oddly(document: Any) -> st.SearchStrategy[bytes]:
    """The document with one value that nobody expects, or no JSON at all."""
    odd = st.builds(lambda path, value: changed(document, path, value), st.sampled_from(places(document)), ODD)
    return st.binary(max_size=20) | odd.map(lambda one: json.dumps(one).encode())


DEVICES = b'{"result": [{"id": "b1", "name": "101"}]}'


class Answering(BoundedHttp):
    """A vendor's HTTP that always gives the same answer, but for Geotab's devices."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def request(self, method: Any, url: str, *, body: bytes | None = None, **_: Any) -> VendorAnswer:
        return VendorAnswer(200, {}, DEVICES if b'"Device"' in (body or b"") else self._body)


ACCESS = Access("http://vendor", {"token": "t", "api_key": "k", "database": "d", "username": "u", "password": "p"})


def outcome(ask: Callable[[], VendorPage]) -> VendorPage | VendorFault:
    try:
        page = ask()
    except VendorFault as fault:
        return fault
    assert all(isinstance(fix.vehicle_key, str) and fix.recorded_at.tzinfo for fix in page.fixes)
    return page


def polled_once(vendor: Vendor, body: bytes) -> VendorPage | VendorFault:
    return outcome(lambda: asyncio.run(vendor.poll(None, ACCESS, Answering(body))))


@given(oddly(LOCATIONS))
def test_motive(body: bytes) -> None:
    polled_once(Motive(), body)


@given(oddly(WEBHOOK))
def test_motive_s_webhooks(body: bytes) -> None:
    outcome(lambda: Motive().read_inbound(InboundRequest({}, {}, body), ACCESS))


@given(oddly(STATS))
def test_samsara(body: bytes) -> None:
    polled_once(Samsara(), body)


@given(oddly(POSITIONS))
def test_traccar(body: bytes) -> None:
    polled_once(Traccar(), body)


@given(oddly(FORWARDED))
def test_traccar_s_forwarding(body: bytes) -> None:
    outcome(lambda: Traccar().read_inbound(InboundRequest({}, {}, body), ACCESS))


@given(oddly(UNITS))
def test_eld_gateways(body: bytes) -> None:
    polled_once(EldGateway(), body)
    try:
        said = asyncio.run(EldGateway().test(ACCESS, Answering(body)))
    except VendorFault:
        return
    assert "units" in said


@settings(deadline=None)  # the first example loads Geotab's client
@given(oddly(PAGE) | oddly(FAILED))
def test_geotab(body: bytes) -> None:
    polled_once(Geotab(), body)


@pytest.mark.parametrize(
    ("vendor", "document"),
    [
        (Motive(), LOCATIONS),
        (EldGateway(), UNITS),
        (Geotab(), PAGE),
        (Samsara(), STATS),
        (Traccar(), POSITIONS),
    ],
)
def test_the_same_documents_without_anything_odd_bring_a_fix(vendor: Vendor, document: Any) -> None:
    page = polled_once(vendor, json.dumps(document).encode())
    assert isinstance(page, VendorPage)
    assert len(page.fixes) == 1
