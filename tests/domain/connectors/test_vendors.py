"""Motive, Geotab, Traccar and ELD gateways: from fakes of them over real HTTP into the tables, with their faults."""

import asyncio
import pkgutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from domain.connectors import kinds
from domain.connectors.connectors import UnusableConnector, checked_url
from domain.connectors.kinds.eld import EldGateway
from domain.connectors.kinds.geotab import Geotab as GeotabVendor
from domain.connectors.kinds.motive import Motive as MotiveVendor
from domain.connectors.kinds.traccar import Traccar as TraccarVendor
from domain.connectors.leases import ConnectorRow
from domain.connectors.page_storage import note_failure, store_page
from domain.connectors.values import moment_or_none
from domain.connectors.vendor import (
    Access,
    ForgedRequest,
    InboundRequest,
    UnreadableAnswer,
    VendorAnswer,
    VendorFault,
    VendorHurried,
    VendorPage,
    VendorRefusal,
)
from domain.connectors.vendor_http import BoundedHttp
from domain.database.connections import Connection
from tests.domain.connectors.cases import Answers
from tests.domain.connectors.helpers import LOOPBACK, RULES, added, leased, polled, taken
from tests.factories import JOLIET, Fleet
from tests.rows import named
from tests.vendors.eld import running_eld
from tests.vendors.geotab import Geotab, running_geotab
from tests.vendors.motive import Motive, running_motive
from tests.vendors.traccar import running_traccar
from tests.vendors.vendor import Fault, Vendor

KINDS = ("motive", "geotab", "eld")


class Setting(NamedTuple):
    kind: str
    vendor: Any
    credentials: dict[str, str]
    url: str


@pytest.fixture
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    with ExitStack() as stack:
        match request.param:
            case "motive":
                motive = stack.enter_context(running_motive())
                yield Setting("motive", motive, {"token": motive.token}, motive.url)
            case "geotab":
                geotab = stack.enter_context(running_geotab())
                yield Setting("geotab", geotab, geotab_credentials(geotab), geotab.url)
            case "eld":
                eld = stack.enter_context(running_eld())
                credentials = {"api_key": eld.token, "provider_token": eld.provider_token}
                yield Setting("eld", eld, credentials, f"{eld.url}/api/v2/units-by-usdot/{eld.usdot}")


def geotab_credentials(geotab: Geotab) -> dict[str, str]:
    return {"database": geotab.database, "username": geotab.username, "password": geotab.token}


def lease_of(connection: Connection, fleet: Fleet, one: Setting, now: datetime) -> ConnectorRow:
    return leased(connection, added(connection, fleet.live, one.kind, one.url, one.credentials), now=now)


def report(vendor: Vendor, at: datetime, **changes: Any) -> None:
    vendor.report("101", JOLIET["latitude"], JOLIET["longitude"], at, **{"speed_mph": 61.0, **changes})


@pytest.mark.parametrize("setting", KINDS, indirect=True)
def test_a_position_comes_in_with_its_speed_and_is_stored_once(
    connection: Connection, fleet: Fleet, now: datetime, setting: Setting
) -> None:
    lease = lease_of(connection, fleet, setting, now)
    report(setting.vendor, datetime.now(UTC) - timedelta(minutes=2))
    page = polled(lease, None)
    assert (taken(connection, lease, page, now=now).stored, page.has_more) == (1, False)
    assert taken(connection, lease, page, now=now).stored == 0
    assert taken(connection, lease, polled(lease, page.cursor), now=now).stored == 0

    (row,) = named(connection).execute("SELECT * FROM positions WHERE vehicle_id = %s", (fleet.trucks[0],))
    assert (row.latitude, row.longitude) == (JOLIET["latitude"], JOLIET["longitude"])
    assert row.speed_mph == pytest.approx(61.0, abs=0.4)  # Geotab has whole km/h
    assert row.fuel_percent == (None if setting.kind == "eld" else 60.0)


@pytest.mark.parametrize("setting", KINDS, indirect=True)
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("error", VendorFault),
        ("limit", VendorHurried),
        ("hang", VendorFault),
        ("cut", VendorFault),
        ("not json", UnreadableAnswer),
    ],
)
def test_a_fault_costs_that_poll_alone(
    connection: Connection, fleet: Fleet, now: datetime, setting: Setting, fault: Fault, error: type[VendorFault]
) -> None:
    lease = lease_of(connection, fleet, setting, now)
    report(setting.vendor, datetime.now(UTC))
    setting.vendor.fail(fault)
    with pytest.raises(error) as raised:
        polled(lease, None, seconds=0.6 if fault == "hang" else 120)
    assert setting.vendor.token not in str(raised.value) + raised.value.what_to_do
    if isinstance(raised.value, VendorHurried):
        assert raised.value.retry_after_seconds == 1
    assert len(polled(lease, None).fixes) == 1


@pytest.mark.parametrize("setting", KINDS, indirect=True)
def test_revoked_credentials_are_told_as_such(
    connection: Connection, fleet: Fleet, now: datetime, setting: Setting
) -> None:
    lease = lease_of(connection, fleet, setting, now)
    setting.vendor.revoked = True
    with pytest.raises(VendorRefusal, match="credentials"):
        polled(lease, None)


# --- Motive ------------------------------------------------------------------------------------------------------


@pytest.fixture
def motive() -> Iterator[Motive]:
    with running_motive() as vendor:
        yield vendor


def test_motive_s_pages_are_followed_to_the_end_and_begin_anew(
    connection: Connection, fleet: Fleet, now: datetime, motive: Motive
) -> None:
    motive.page_size = 2
    one = Setting("motive", motive, {"token": motive.token}, motive.url)
    lease = lease_of(connection, fleet, one, now)
    for number in range(5):
        motive.report(f"T{number}", 41, -88, now)
    pages, cursor = [polled(lease, None)], ""
    while pages[-1].has_more:
        cursor = pages[-1].cursor or ""
        pages.append(polled(lease, cursor))
    assert [len(page.fixes) for page in pages] == [2, 2, 1]
    assert (cursor, pages[-1].cursor) == ("3", None)


def test_a_connector_whose_later_pages_fail_counts_as_failing_though_the_first_one_comes(
    connection: Connection, fleet: Fleet, now: datetime, motive: Motive
) -> None:
    one = Setting("motive", motive, {"token": motive.token}, motive.url)
    lease = lease_of(connection, fleet, one, now)
    note_failure(connection, lease, "it answered 500", "nothing", due_at=now, now=now)
    first, last = VendorPage([], [], "2", has_more=True), VendorPage([], [])
    for page, failing_since in ((first, now), (last, None)):
        store_page(connection, lease, page, ends_fault=page is last, due_at=now, rules=RULES, now=now)
        (row,) = named(connection).execute("SELECT * FROM connectors WHERE id = %s", (lease.id,))
        assert (row.failing_since, row.last_error) == (failing_since, failing_since and "it answered 500")


def test_motive_without_a_fuel_level_or_a_tracker_is_nothing_special(
    connection: Connection, fleet: Fleet, now: datetime, motive: Motive
) -> None:
    motive.report("101", 41, -88, now, fuel_percent=None, speed_mph=None)
    (fix,) = polled(
        lease_of(connection, fleet, Setting("motive", motive, {"token": motive.token}, motive.url), now), None
    ).fixes
    assert (fix.speed_mph, fix.fuel_percent) == (None, None)


def inbound(motive: Motive, body: bytes, headers: dict[str, str]) -> tuple[InboundRequest, Access]:
    names = {name.lower(): value for name, value in headers.items()}
    return InboundRequest(names, {}, body), Access(motive.url, {"token": "t", "webhook_secret": motive.webhook_secret})


def test_motive_s_webhook_brings_a_position_if_its_signature_is_right(motive: Motive, now: datetime) -> None:
    request, access = inbound(motive, *motive.webhook(motive.report("101", 41.5, -88.5, now, speed_mph=60)))
    vendor = MotiveVendor()
    vendor.verify(request, access, now=now)
    (fix,) = vendor.read_inbound(request, access).fixes
    assert (fix.vehicle_key, fix.latitude, fix.longitude, fix.fuel_percent) == ("1000", 41.5, -88.5, 60)
    assert fix.speed_mph is None, "the unit of a webhook's speed is not documented"
    standing, _ = inbound(motive, *motive.webhook(motive.report("101", 41.5, -88.5, now, speed_mph=0)))
    assert vendor.read_inbound(standing, access).fixes[0].speed_mph == 0, "the same in any unit"

    for forged in (
        request._replace(body=request.body + b" "),
        request._replace(headers={}),
        request._replace(headers={"x-kt-webhook-signature": "é"}),
    ):
        with pytest.raises(ForgedRequest):
            vendor.verify(forged, access, now=now)
    unsigned, _ = inbound(Motive(webhook_secret=""), *Motive(webhook_secret="").signed(request.body))
    with pytest.raises(ForgedRequest):  # no secret was given: nobody can sign
        vendor.verify(unsigned, Access(motive.url, {"token": "t"}), now=now)


def test_a_webhook_that_names_a_vehicle_by_its_key_alone_finds_it_and_changes_no_name(
    connection: Connection, fleet: Fleet, now: datetime, motive: Motive
) -> None:
    lease = lease_of(connection, fleet, Setting("motive", motive, {"token": motive.token}, motive.url), now)
    report(motive, now - timedelta(minutes=2))
    taken(connection, lease, polled(lease, None), now=now)
    request, access = inbound(motive, *motive.webhook(motive.report("101", 41.5, -88.5, now), named=False))
    page = MotiveVendor().read_inbound(request, access)

    later = now + timedelta(minutes=11)  # the comparison before does not hold any more
    before = lease.id
    lease = leased(connection, added(connection, fleet.live, "motive", motive.url, {"token": motive.token}), now=later)
    connection.execute("UPDATE connector_vehicles SET connector_id = %s WHERE connector_id = %s", (lease.id, before))
    assert taken(connection, lease, page, now=later).stored == 1
    rows = named(connection).execute("SELECT name FROM connector_vehicles WHERE connector_id = %s", (lease.id,))
    assert [row.name for row in rows] == ["101"]


def test_motive_s_own_example_of_a_signature_holds() -> None:
    """developer.gomotive.com/reference/company-webhooks-overview."""
    headers = {"x-kt-webhook-signature": "f04a8386a21a6cba0447024e83b3f0983352bb72"}
    access = Access("", {"token": "t", "webhook_secret": "d9d36bea41c44ae49d1bfc4a48ba2abe"})
    request = InboundRequest(headers, {}, b'["fault_code_closed"]')
    MotiveVendor().verify(request, access, now=datetime.now(UTC))


@pytest.mark.parametrize("body", [b'{"action":"test"}', b'["fault_code_closed"]', b'{"action":"vehicle_upserted"}'])
def test_other_webhooks_of_motive_are_taken_and_bring_nothing(motive: Motive, body: bytes) -> None:
    request, access = inbound(motive, *motive.signed(body))
    assert MotiveVendor().read_inbound(request, access).fixes == []


@pytest.mark.parametrize("body", [b"", b"[[[[", b'{"action":"vehicle_location_updated","vehicle_id":true}'])
def test_a_webhook_that_cannot_be_read_brings_nothing(motive: Motive, body: bytes) -> None:
    request, access = inbound(motive, *motive.signed(body))
    try:
        page = MotiveVendor().read_inbound(request, access)
    except UnreadableAnswer:
        return
    assert (page.fixes, page.refused) == ([], {"unreadable": 1})


# --- Geotab ------------------------------------------------------------------------------------------------------


@pytest.fixture
def geotab() -> Iterator[Geotab]:
    with running_geotab() as vendor:
        yield vendor


def test_geotab_s_two_feeds_go_on_where_the_cursor_ends_and_fuel_is_joined(
    connection: Connection, fleet: Fleet, now: datetime, geotab: Geotab
) -> None:
    lease = lease_of(connection, fleet, Setting("geotab", geotab, geotab_credentials(geotab), geotab.url), now)
    vendor, recently = GeotabVendor(), datetime.now(UTC)
    geotab.vins["101"] = "1M8GDM9AXKP042788"
    report(geotab, recently - timedelta(minutes=3), fuel_percent=58.0)
    first = polled(lease, None, vendor)
    report(geotab, recently, fuel_percent=None)
    second = polled(lease, first.cursor, vendor)

    assert [fix.fuel_percent for fix in (*first.fixes, *second.fixes)] == [58.0, 58.0]
    assert (second.vehicles[0].name, second.vehicles[0].vin) == ("101", "1M8GDM9AXKP042788")
    assert polled(lease, second.cursor, vendor).fixes == []
    report(geotab, recently + timedelta(minutes=20), fuel_percent=None)
    assert polled(lease, second.cursor, vendor).fixes[0].fuel_percent is None, "the level is too old"


def test_geotab_s_session_is_made_anew_when_it_has_ended(
    connection: Connection, fleet: Fleet, now: datetime, geotab: Geotab
) -> None:
    lease = lease_of(connection, fleet, Setting("geotab", geotab, geotab_credentials(geotab), geotab.url), now)
    vendor = GeotabVendor()
    report(geotab, datetime.now(UTC))
    polled(lease, None, vendor)
    geotab.session = "session-2"
    report(geotab, datetime.now(UTC))
    assert len(polled(lease, None, vendor).fixes) == 2


@pytest.mark.parametrize("form", ["both", "data", "errors"])
@pytest.mark.parametrize(
    ("name", "fault", "what_to_do"),
    [
        ("InvalidUserException", VendorRefusal, "make a new token"),
        ("DbUnavailableException", VendorRefusal, "nothing, if it was there before"),
        ("OverLimitException", VendorHurried, "nothing"),
        ("GenericException", VendorFault, "nothing"),
    ],
)
def test_geotab_s_errors_are_told_apart_wherever_their_name_stands(
    form: str, name: str, fault: type[VendorFault], what_to_do: str
) -> None:
    """Guides of public clients show `data.type` alone: a session that had ended was never made anew."""
    named: dict[str, Any] = {"data": {"type": name}, "errors": [{"name": name, "message": "no"}]}
    error = named if form == "both" else {form: named[form]}
    session = {"result": {"credentials": {"sessionId": "s"}, "path": "ThisServer"}}
    access = Access("http://vendor", {"database": "d", "username": "u", "password": "p"})
    with pytest.raises(fault, match=name if fault is not VendorHurried else "less often") as raised:
        asyncio.run(GeotabVendor().poll(None, access, Answers([session, {"error": {"message": "no", **error}}])))
    assert raised.value.what_to_do.startswith(what_to_do)


def test_geotab_s_devices_are_all_named_though_it_leaves_some_out_of_an_answer(
    connection: Connection, fleet: Fleet, now: datetime, geotab: Geotab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5,000 in an answer, retired ones among them; the others had no name and no VIN, and matched no truck."""
    lease = lease_of(connection, fleet, Setting("geotab", geotab, geotab_credentials(geotab), geotab.url), now)
    monkeypatch.setattr("domain.connectors.kinds.geotab._MOST_OF_GET", 2)
    geotab.most_of_get = 2
    numbers = ["101", "102", "103", "104", "105"]
    for number in numbers:
        geotab.report(number, JOLIET["latitude"], JOLIET["longitude"])
    assert [one.name for one in polled(lease, None).vehicles] == numbers
    assert len([one for one in geotab.requests if b'"Device"' in one.body]) == 4


def test_geotab_cannot_send_us_to_a_server_that_is_not_its_own(
    connection: Connection, fleet: Fleet, now: datetime, geotab: Geotab
) -> None:
    geotab.path = "geotab.com.example.com"
    lease = lease_of(connection, fleet, Setting("geotab", geotab, geotab_credentials(geotab), geotab.url), now)
    with pytest.raises(VendorFault, match="not its own"):
        polled(lease, None)


# --- Traccar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balancer", ["", "AWSALB=q/Zx+1=="])
def test_a_session_of_traccar_holds_behind_a_load_balancer_with_a_cookie_of_its_own(balancer: str) -> None:
    """Application Load Balancers of AWS add a cookie behind that of the server, with a date that has a comma:
    docs.aws.amazon.com/elasticloadbalancing, "Sticky sessions"."""

    async def poll(access: Access) -> VendorPage:
        http = BoundedHttp(allowed=LOOPBACK)
        try:
            return await TraccarVendor().poll(None, access, http)
        finally:
            await http.close()

    with running_traccar() as traccar:
        traccar.balancer = balancer
        report(traccar, datetime.now(UTC))
        page = asyncio.run(poll(Access(traccar.url, {"email": traccar.email, "password": traccar.password})))
    assert len(page.fixes) == 1


# --- ELD gateways ------------------------------------------------------------------------------------------------

DESCRIPTION = """{"units": "/payload/assets", "name": "/label/no", "latitude": "/pos/0", "longitude": "/pos/1",
    "time": "/epoch", "speed": "/kmh", "speed_unit": "km/h", "fuel_percent": "/tank"}"""


def test_an_unknown_gateway_is_read_by_its_description_and_previewed(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    with running_eld() as vendor:
        vendor.nested = True
        report(vendor, now, fuel_percent=44.0)
        vendor.report("no place", float("nan"), 5, now)
        credentials = {"api_key": vendor.token, "provider_token": vendor.provider_token, "description": DESCRIPTION}
        one = Setting("eld", vendor, credentials, f"{vendor.url}/api/v2/units-by-usdot/{vendor.usdot}")
        page = polled(lease_of(connection, fleet, one, now), None)
        (fix,) = page.fixes
        said = preview(one)

    assert (fix.vehicle_key, fix.recorded_at, fix.fuel_percent) == ("101", now.replace(microsecond=0), 44)
    assert fix.speed_mph == pytest.approx(61)
    assert page.refused == {"unreadable": 1}
    assert said.startswith("2 units, of which 1 can be read. The first: 101 at 41.4620, -88.1250, ")
    assert said.endswith("61 mph, fuel 44 %")


def preview(one: Setting) -> str:
    async def test() -> str:
        http = BoundedHttp(allowed=LOOPBACK)
        try:
            return await EldGateway().test(Access(one.url, one.credentials), http)
        finally:
            await http.close()

    return asyncio.run(test())


@pytest.mark.parametrize(
    ("description", "fault"),
    [
        ("{", "the description"),
        ("[]", "the description"),
        ('{"unit": "/a"}', "unknown field"),
        ('{"units": "assets"}', "`units` is not a JSON pointer"),
        ('{"speed_unit": "m/s"}', "m/s"),
        ('{"time": ""}', "are needed"),
        ('{"units": "/' + "a" * 300 + '"}', "not a JSON pointer"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused_with_its_fault(
    connection: Connection, fleet: Fleet, description: str, fault: str
) -> None:
    with pytest.raises(UnusableConnector, match=fault):
        added(connection, fleet.live, "eld", "http://127.0.0.1:9/units", {"api_key": "k", "description": description})


def test_a_gateway_s_address_keeps_its_slash() -> None:
    """Gateways on Django redirect an address without it, and redirects are not followed. Other vendors' addresses get
    paths."""
    given = " https://eld.example.com/api/units/ "
    assert checked_url(EldGateway, given, LOOPBACK) == "https://eld.example.com/api/units/"
    assert checked_url(MotiveVendor, given, LOOPBACK) == "https://eld.example.com/api/units"
    assert checked_url(MotiveVendor, " / ", LOOPBACK) == MotiveVendor.default_url


@pytest.mark.parametrize(
    ("of_url", "query", "asked"),
    [
        ("", "", "?page=2"),
        ("", "usdot=1234567&page=9", "?usdot=1234567&page=2"),
        ("", "include=gps&include=fuel&a=&q=x%20%26+y", "?include=gps&include=fuel&a=&q=x+%26+y&page=2"),
        ("?usdot=1234567", "", "?usdot=1234567&page=2"),
    ],
)
def test_a_gateway_is_asked_with_every_part_of_its_query(of_url: str, query: str, asked: str) -> None:
    credentials = {"api_key": "k", "query": query, "description": '{"page": "page", "pages": "/pages"}'}
    http = Answers([{"units": []}])
    asyncio.run(EldGateway().poll("2", Access(f"http://vendor/units{of_url}", credentials), http))
    assert http.asked == [f"http://vendor/units{asked}"]


class Shorter(Answers):
    """A gateway whose last page has gone."""

    def __init__(self, status: int) -> None:
        super().__init__([])
        self._status = status

    async def request(self, method: Any, url: str, **_: Any) -> VendorAnswer:
        raise VendorFault("it answered", status=self._status)


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_gateway_s_list_that_has_become_shorter_ends_and_begins_anew(status: int) -> None:
    """A truck was removed between two pages: the page that was to come was asked for again and again, for ever."""
    access = Access("http://vendor", {"api_key": "k", "description": '{"page": "page", "pages": "/pages"}'})
    page = asyncio.run(EldGateway().poll("3", access, Shorter(status)))
    assert (page.fixes, page.cursor, page.has_more) == ([], None, False)
    for cursor, answer in ((None, status), ("1", status), ("3", 500)):
        with pytest.raises(VendorFault):
            asyncio.run(EldGateway().poll(cursor, access, Shorter(answer)))


@pytest.mark.parametrize(
    ("time", "read"),
    [
        ("2026-11-24T09:00:00Z", True),
        ("2026-11-24 09:00:00", True),
        (1795510800, True),
        (1795510800000, True),
        ("1795510800", True),
        ("yesterday", False),
        (None, False),
        (True, False),
        (1e300, False),
        ([], False),
    ],
)
def test_a_gateway_s_times_are_read_in_any_common_form(time: object, read: bool) -> None:
    expected = datetime(2026, 11, 24, 9, tzinfo=UTC) if read else None
    assert moment_or_none(time) == expected


def test_each_module_of_the_kinds_is_a_vendor() -> None:
    modules = [module.name for module in pkgutil.iter_modules(kinds.__path__)]
    assert sorted(vendor.__module__.rpartition(".")[2] for vendor in kinds.VENDORS.values()) == sorted(modules)
