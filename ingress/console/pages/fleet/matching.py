"""The page Matching: people say which vehicle or driver a reference means, so that held routes are imported."""

import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

from starlette.responses import Response

from domain.accounts.companies import lock_company
from domain.accounts.users import MAY_MATCH
from domain.audit.entries import Actor
from domain.contract.checking import Invalid, read_query
from domain.fleet.api_lists import FleetRecord, list_records
from domain.fleet.drivers import DriverRow
from domain.fleet.likeness import Likeness, Suggestion
from domain.fleet.mappings import KIND_NAMES, mappings_of
from domain.fleet.matching import KINDS, MappingKind, Matched
from domain.fleet.records import ID_KIND
from domain.fleet.shared_spellings import Spelled, Spelling, shared_spellings
from domain.fleet.vehicles import VehicleRow
from domain.ids import read_id, shown_id
from domain.routes.intake import fleet_changes
from domain.routes.intake.holds import routes_waiting_for
from domain.routes.intake.waiting_references import WaitingReference, routes_now, waiting_references
from domain.wording import counted
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import Refused, not_found
from ingress.console.signed_in import Page, see_other

PAGE_SIZE = 20
_SUGGESTED = 3
_FOUND = 8
_WATCHED = 5
"""Number of routes that are named one by one after a mapping."""
_MOST_TOGETHER = 200
"""Most references that one form maps together: as many as a person looks through."""
_MOST_LOOKS = 60
"""Number of times that the page refreshes itself, once a second. A worker that has done nothing by then is away."""


def matched_of(page: Page) -> Matched:
    """The kind of record in an address such as /matching/vehicles. Raises Refused for any other."""
    match page.request.path_params["matched"]:
        case "vehicles":
            return "vehicle"
        case "drivers":
            return "driver"
    raise not_found()


def kind_of(page: Page, matched: Matched) -> MappingKind:
    """The kind of reference in the form. Raises Refused for any other."""
    kind = page.form.text("kind")
    if kind not in KINDS[matched]:
        raise not_found()
    return kind


def show(page: Page) -> Response:
    matched = matched_of(page)
    records = list_records(page.connection, page.company_id, matched)
    waiting = waiting_references(page.connection, page.company_id, matched, records)
    text = page.form.text("q").lower()
    found = [reference for reference in waiting if text in reference.value.lower()]
    mapped = page.form.number("mapped")
    number = page.form.number("page")
    likeness = _likeness(waiting, records)
    shown = found[number * PAGE_SIZE : (number + 1) * PAGE_SIZE]
    targets = mappings_of(page.connection, page.company_id, matched, [reference.value for reference in shown])

    def was(reference: WaitingReference) -> str:
        return _target_shown(matched, targets.get((reference.kind, reference.value)))

    return page.render(
        "matching.html",
        section="matching",
        matched=matched,
        id_kind=ID_KIND[matched],
        references=_with_candidates(shown, records, likeness),
        total=len(found),
        waiting=len(waiting),
        fleet_size=len(records),
        page_number=number,
        pages=-(-len(found) // PAGE_SIZE),
        q=page.form.text("q"),
        kind_names=KIND_NAMES,
        together=_together(waiting, likeness) if not text and number == 0 else {},
        most_together=_MOST_TOGETHER,
        seen=_seen,
        was=was,
        done=f"{counted(mapped, matched)} mapped. The routes that waited are being imported." if mapped else "",
    )


def _likeness(waiting: Sequence[WaitingReference], records: list[FleetRecord]) -> dict[MappingKind, Likeness]:
    return {kind: Likeness(records, kind) for kind in {reference.kind for reference in waiting if not reference.fits}}


def _together(
    waiting: Sequence[WaitingReference], likeness: Mapping[MappingKind, Likeness]
) -> dict[Spelling, list[Spelled]]:
    """The references that may be mapped together, because they differ from the fleet's names in one way."""
    found: dict[Spelling, list[Spelled]] = {}
    for kind, one in sorted(likeness.items()):
        values = [reference.value for reference in waiting if reference.kind == kind and not reference.fits]
        found |= shared_spellings(values, kind, one)
    return found


def _with_candidates(
    references: list[WaitingReference], records: list[FleetRecord], likeness: Mapping[MappingKind, Likeness]
) -> list[tuple[WaitingReference, list[FleetRecord], list[Suggestion]]]:
    """Each reference with the records that it fits; if there are none, with those that it resembles."""
    by_id = {record.id: record for record in records}
    return [
        (
            reference,
            [by_id[record_id] for record_id in reference.fits if record_id in by_id],
            [] if reference.fits else likeness[reference.kind].rank(reference.value, limit=_SUGGESTED),
        )
        for reference in references
    ]


def candidates(page: Page) -> Response:
    """Show the records whose text contains the typed one. If none does, show similar ones; without a text, the first
    ones."""
    matched = matched_of(page)
    kind, value, text = kind_of(page, matched), page.form.packed("value"), page.form.text("q")
    records = list_records(page.connection, page.company_id, matched)
    return page.render(
        "_candidates.html",
        matched=matched,
        id_kind=ID_KIND[matched],
        kind=kind,
        value=value,
        was=page.form.text("was"),
        candidates=_search(records, kind, text),
        text=text,
    )


def _search(records: list[FleetRecord], kind: MappingKind, text: str) -> list[Suggestion]:
    if not text:
        return [Suggestion(record, None) for record in records[:_FOUND]]
    wanted = text.lower()
    containing = [
        Suggestion(record, None, is_likely=True)  # the person has named it
        for record in records
        if any(wanted in part.lower() for part in (record.name or "", record.other or "", record.about))
    ][:_FOUND]
    return containing or Likeness(records, kind).rank(text, limit=_FOUND)


def map_reference(page: Page, by: Actor) -> Response:
    """Map a reference to a record by one click. From now on routes with that reference are imported."""
    matched = matched_of(page)
    kind, value = kind_of(page, matched), page.form.packed("value")
    target_id = read_id(ID_KIND[matched], page.form.text("target_id"))
    if not value or target_id is None:
        raise not_found()
    require_shown_mapping(page, matched, kind, value, to=target_id)
    waiting = fleet_changes.add_mapping(page.connection, page.company_id, kind, value, target_id, by)
    return _watch(page, matched, kind, value, waiting)


def require_shown_mapping(
    page: Page, matched: Matched, kind: MappingKind, value: str, *, to: UUID | None = None
) -> None:
    """Check that the reference is still mapped as the form's page shows it, or `to` that record already. Raises
    Refused: somebody else has mapped it in the meantime."""
    lock_company(page.connection, page.company_id)
    now = mappings_of(page.connection, page.company_id, matched, [value]).get((kind, value))
    if _target_shown(matched, now) != page.form.text("was") and (now is None or now != to):
        raise Refused(
            409,
            "Somebody else has changed the mapping of this reference in the meantime",
            "Nothing was changed. Look at it on the page Mappings, and change it there.",
        )


def _target_shown(matched: Matched, target_id: UUID | None) -> str:
    return shown_id(ID_KIND[matched], target_id) if target_id else ""


def _seen(spelled: Sequence[Spelled]) -> str:
    """A short name for the references and records that a person has looked through."""
    pairs = sorted((one.value, one.record.id.hex) for one in spelled[:_MOST_TOGETHER])
    return hashlib.sha256(repr(pairs).encode()).hexdigest()


def map_together(page: Page, by: Actor) -> Response:
    """Map the references of one spelling, after a person has looked through them. If other references wait by now than
    the person saw, nothing is mapped."""
    matched = matched_of(page)
    lock_company(page.connection, page.company_id)  # a colleague who maps one of them is waited for, and then seen
    spelling = Spelling(kind_of(page, matched), page.form.packed("before") or None)
    records = list_records(page.connection, page.company_id, matched)
    waiting = waiting_references(page.connection, page.company_id, matched, records)
    spelled = _together(waiting, _likeness(waiting, records)).get(spelling, [])[:_MOST_TOGETHER]
    if not spelled or _seen(spelled) != page.form.text("seen"):
        raise Refused(
            409, "Other references wait by now", "Nothing was mapped. Go back to Matching and look at them again."
        )
    targets = {one.value: one.record.id for one in spelled}
    fleet_changes.add_mappings(page.connection, page.company_id, spelling, targets, by)
    return see_other(f"/matching/{matched}s?mapped={len(targets)}")


def make_record(page: Page, by: Actor) -> Response:
    """Add a vehicle or driver for a reference that fits no record."""
    matched = matched_of(page)
    kind, value = kind_of(page, matched), page.form.packed("value")
    if not value:
        raise not_found()
    given = {name: page.form.text(name, most=2000) for name in _fields(matched) if page.form.text(name, most=2000)}
    try:
        row = read_query(given, VehicleRow) if matched == "vehicle" else read_query(given, DriverRow)
    except Invalid as invalid:
        raise Refused(400, f"This is no {matched} yet", f"{invalid}. Go back and correct it.") from None
    require_shown_mapping(page, matched, kind, value)
    waiting = fleet_changes.make_record(
        page.connection, page.company_id, kind, value, row, by, contacts=page.console.contacts
    )
    return _watch(page, matched, kind, value, waiting)


def _fields(matched: Matched) -> tuple[str, ...]:
    return VehicleRow.__struct_fields__ if matched == "vehicle" else DriverRow.__struct_fields__


def _watch(page: Page, matched: Matched, kind: MappingKind, value: str, waiting: list[UUID]) -> Response:
    """Show the progress of the routes in place of the reference."""
    if not page.is_fragment:
        return see_other(f"/matching/{matched}s")
    return _progress(page, matched, kind, value, waiting[:_WATCHED], len(waiting), looks=0)


def progress(page: Page) -> Response:
    matched = matched_of(page)
    watched = [route_id for text in page.form.all("route") if (route_id := read_id("rte", text)) is not None]
    return _progress(
        page,
        matched,
        kind_of(page, matched),
        page.form.packed("value"),
        watched[:_WATCHED],
        page.form.number("routes"),
        looks=page.form.number("looks") + 1,
    )


def _progress(
    page: Page, matched: Matched, kind: MappingKind, value: str, watched: list[UUID], routes: int, *, looks: int
) -> Response:
    left = len(routes_waiting_for(page.connection, page.company_id, kind, [value]))
    return page.render(
        "_progress.html",
        matched=matched,
        kind=kind,
        value=value,
        kind_name=KIND_NAMES[kind],
        routes=routes,
        moved=max(routes - left, 0),
        watched=routes_now(page.connection, page.company_id, watched),
        is_done=left == 0,
        is_stuck=left > 0 and looks >= _MOST_LOOKS,
        looks=looks,
    )


ADDRESSES = [
    page_at("/matching/{matched}", show),
    page_at("/matching/{matched}/candidates", candidates),
    page_at("/matching/{matched}/progress", progress),
    action_at("/matching/{matched}/map", map_reference, by=MAY_MATCH),
    action_at("/matching/{matched}/map-together", map_together, by=MAY_MATCH),
    action_at("/matching/{matched}/new", make_record, by=MAY_MATCH),
]
