"""The page Map: every truck of the company on a map and in a list beside it, and a page for each truck. It updates
itself."""

import gzip
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from domain.accounts.users import EVERYBODY
from domain.database.connections import Tenant
from domain.encoding import write
from domain.ids import shown_id
from domain.routes.reading.fleet_now import read_fleet, read_truck, read_trucks, truck_ids
from domain.telematics.readings import read_trail
from ingress.console.addresses import page_at, stream_at
from ingress.console.browser import Form
from ingress.console.fleet_snapshots import NEEDS, STATUSES, Bounds, FleetSnapshots, Row, Snapshot, row_of
from ingress.console.maps import with_map
from ingress.console.refusals import Refused, known
from ingress.console.rendering import relative
from ingress.console.signed_in import Page, see_other
from ingress.console.tables import FilteredList, saved_filters

MOST_LISTED = 100
"""Most trucks in the list beside the map. A person who looks for another one narrows the list."""

TRAIL_SHOWN = timedelta(hours=6)
"""The part of a truck's trail that is shown, before its newest fix."""

NEED_WORDS = {
    "late": "late",
    "silent": "silent",
    "low": "low fuel",
    "off_road": "off its road",
}
STATUS_WORDS = {"": "no route", "draft": "draft", "planned": "planned", "active": "active"}
_FILTERS = ("environment", "status", "unit", "driver", "need")
FILTERED = FilteredList("map", "/map", _FILTERS)
_COMPRESSED_FROM_BYTES = 2_000

_fleets = FleetSnapshots()


class Filter(NamedTuple):
    """The trucks that a person wants to see. The script of the page has the same rules."""

    status: str
    """A word of STATUSES, or `none` for trucks without a route; empty for any."""
    unit: str
    driver: str
    need: str
    """A word of NEEDS; empty for any truck."""

    @classmethod
    def read(cls, form: Form) -> "Filter":
        status, need = form.text("status"), form.text("need")
        return cls(
            status if status in ("none", *STATUSES[1:]) else "",
            form.text("unit").casefold(),
            form.text("driver").casefold(),
            need if need in NEEDS else "",
        )

    def has(self, row: Row) -> bool:
        return (
            (not self.status or (STATUSES[row.status] or "none") == self.status)
            and self.unit in row.unit.casefold()
            and self.driver in row.driver.casefold()
            and (not self.need or bool(row.needs >> NEEDS.index(self.need) & 1))
        )


def show(page: Page) -> Response:
    """Show the whole page. Without scripts only its list works."""
    tenant, wanted = page.tenant, Filter.read(page.form)
    ids = truck_ids(page.connection, page.company_id)
    if any(wanted):
        rows = [row for row in _snapshot(page, tenant).rows() if wanted.has(row)]
        total = len(rows)
    else:  # the page comes at once, and its script loads the rest
        rows = [row_of(one) for one in read_trucks(page.connection, tenant, ids[:MOST_LISTED], now=page.now)]
        total = len(ids)
    rows.sort(key=_rank)
    query = {name: page.form.text(name) for name in _FILTERS if page.form.text(name)}
    response = page.render(
        "fleet_map.html",
        section="map",
        environment=tenant.environment,
        company_id=page.company_id,
        form=page.form,
        filters=saved_filters(page, FILTERED),
        rows=rows[:MOST_LISTED],
        total=total,
        most_listed=MOST_LISTED,
        has_trucks=bool(ids),
        of_environment=lambda one: f"/map?{urlencode({**query, 'environment': one})}",
        statuses=STATUSES,
        status_words_of=STATUS_WORDS,
        in_order=lambda words: list(words.items()),
        need_words=NEED_WORDS,
        status_of=lambda row: STATUSES[row.status],
        needs_of=lambda row: [NEED_WORDS[one] for bit, one in enumerate(NEEDS) if row.needs >> bit & 1],
        about=lambda row: _about(row, page.now),
    )
    return with_map(page.console.settings, response)


def _rank(row: Row) -> int:
    """The place of a truck in the list: those that need somebody come first, then those on their way, then those with a
    position. The script of the page has the same rule."""
    if row.needs:
        return 0
    if STATUSES[row.status] == "active":
        return 1
    return 2 if row.latitude is not None else 3


def _about(row: Row, now: datetime) -> str:
    """The words of the list about a truck, after its name, status and needs."""
    said = [row.driver, row.route, f"fuel {row.fuel} %" if row.fuel is not None else "", _age(row, now)]
    said += [f"next {row.stop}" if row.stop else "", f"fuel at {row.fuel_stop}" if row.fuel_stop else ""]
    return " · ".join(filter(None, said))


def _age(row: Row, now: datetime) -> str:
    if row.fix is None:
        return "no position yet"
    fix = datetime.fromtimestamp(row.fix, UTC)
    return "simulated" if fix > now + timedelta(minutes=1) else relative(fix, now)


def show_fleet(page: Page) -> Response:
    """Every truck, for the script of the page."""
    if _is_of_another_company(page):
        return see_other("/map")
    snapshot = _snapshot(page, page.tenant)
    return _answer(page, {"at": snapshot.at, "now": page.now.timestamp(), "trucks": snapshot.rows()})


class Changes(Response):
    """The changes of a fleet up to `at`."""

    media_type = "application/json"

    def __init__(self, at: float, body: bytes) -> None:
        super().__init__(body)
        self.at = at


def show_changes(page: Page) -> Response:
    """The trucks in view that have changed since a snapshot."""
    if _is_of_another_company(page):
        return see_other("/map")
    since = _seconds(page.form.text("since"))
    snapshot = _snapshot(page, page.tenant)
    changed = list(snapshot.changes(since, Bounds.read(page.form.text("bounds"))))
    at = max(snapshot.at, since)
    return Changes(at, write({"at": at, "trucks": changed}))


def _follow(form: Form, response: Response) -> Form:
    """Ask for the changes since the last ones."""
    return Form({**form.values, "since": [repr(response.at)]}) if isinstance(response, Changes) else form


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < 1e12 else 0.0


def show_truck(page: Page) -> Response:
    """Show one truck, as a page or as the part beside the map: its route, its tank, its next stops, its trail."""
    tenant = page.tenant
    truck = known(read_truck(page.connection, tenant, page.id_in_address("veh"), now=page.now))
    trail = (
        read_trail(page.connection, tenant, truck.id, truck.fix_at - TRAIL_SHOWN, truck.fix_at)
        if truck.fix_at is not None
        else []
    )
    return page.render(
        "_map_truck.html" if page.is_fragment else "map_truck.html",
        section="map",
        environment=tenant.environment,
        truck=truck,
        truck_needs=[
            NEED_WORDS[need]
            for need, is_so in zip(
                NEEDS, (truck.is_late, truck.is_silent, truck.is_low, truck.is_off_road), strict=True
            )
            if is_so
        ],
        trail=[(round(place.longitude, 5), round(place.latitude, 5)) for place in trail],
        trail_hours=TRAIL_SHOWN.total_seconds() / 3600,
    )


def _is_of_another_company(page: Page) -> bool:
    """True if an operator has chosen another company since the page was loaded: it must not show trucks of both."""
    loaded_for = page.form.text("company")
    return bool(loaded_for) and loaded_for != shown_id("cmp", page.company_id)


def _snapshot(page: Page, tenant: Tenant) -> Snapshot:
    """The snapshot of the company's fleet. Raises Refused if it takes too long to read."""
    try:
        return _fleets.get(
            tenant, lambda before: read_fleet(page.connection, tenant, before=before, now=page.now), now=page.now
        )
    except TimeoutError:
        raise Refused(503, "The fleet takes long to read", "Try again shortly.") from None


def _answer(page: Page, document: object) -> Response:
    """A JSON document. A large one is compressed, which shrinks rows of trucks to a fifth. It holds no secret that a
    guess in the same answer could be compared with."""
    body, headers = write(document), {"Vary": "Accept-Encoding"}
    if len(body) > _COMPRESSED_FROM_BYTES and "gzip" in page.request.headers.get("accept-encoding", ""):
        body, headers = gzip.compress(body, compresslevel=1), {**headers, "Content-Encoding": "gzip"}
    return Response(body, media_type="application/json", headers=headers)


ADDRESSES = [
    page_at("/map", show),
    page_at("/map/fleet", show_fleet),
    stream_at("/map/stream", show_changes, by=EVERYBODY, follow=_follow),
    page_at("/map/trucks/{id}", show_truck),
]
