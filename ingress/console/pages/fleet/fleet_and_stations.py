"""The pages Fleet and Stations: for each kind of record a list to search, and a form to add, edit, retire or remove
one. `record_kinds` has the differences between vehicles, drivers, stations, deals and taxes."""

from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.users import MAY_DISPATCH, MAY_EDIT_POLICY
from domain.audit.entries import Actor, AuditRow, actions_on_subject
from domain.burn.history import read_burn_history
from domain.contract.captions import CaptionedField
from domain.contract.checking import Invalid, read_query
from domain.database.connections import Tenant
from domain.database.listing import MOST_COUNTED, ListOrder
from domain.errors import FuelrouteError
from domain.fleet.vehicles import StoredVehicle
from domain.lifecycle import Environment
from domain.operations.import_records import latest_imports
from domain.stations.closures import Closure, closures_in_force
from domain.wording import sentence
from ingress.console.addresses import action_at, as_download, page_at
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.burn_chart import draw_burn
from ingress.console.downloads import csv_download
from ingress.console.record_kinds import RECORD_KINDS, AnyRecordKind, RecordKind, Stored, Typed, as_text
from ingress.console.refusals import Refused
from ingress.console.savings_chart import PLOT
from ingress.console.signed_in import Page, see_other
from ingress.console.stale_forms import state_of
from ingress.console.tables import Column, ListTable, ShownTable, shown_table

PAGE_SIZE = 50
_LONGEST = 4_000
"""Most characters of a typed text. The shapes have the limit of each field."""
USUAL_CLOSURE = timedelta(hours=12)
"""The time after which a station opens again, as the form suggests it."""
_ENTRIES = 10
_IMPORTS = 5

_DONE = {
    "added": "It is added.",
    "changed": "The changes are saved.",
    "same": "Nothing was changed.",
    "retired": "It is retired.",
    "removed": "It is removed.",
    "closed": "It is marked closed. Trucks on their way to it get new plans.",
    "reopened": "It is open again.",
}


def _table_of(kind: AnyRecordKind) -> ListTable:
    columns = [
        Column(
            field.name,
            field.label,
            is_sortable=field.name in kind.listing.sorted_by,
            is_number=field.kind == "number",
            is_usual=field.name in kind.listed,
        )
        for field in _listed_first(kind)
    ]
    return ListTable(kind.name, f"/{kind.name}", columns, order="")


def _listed_first(kind: AnyRecordKind) -> list[CaptionedField]:
    listed = [kind.field(name) for name in kind.listed]
    return [*listed, *(field for field in kind.fields if field.name not in kind.listed)]


TABLES = {kind.name: _table_of(kind) for kind in RECORD_KINDS}


class _Asked(NamedTuple):
    """The rows that an address asks for, and the table that shows them."""

    text: str
    retired: bool
    order: ListOrder | None
    table: ShownTable


def _asked(kind: AnyRecordKind, page: Page) -> _Asked:
    text, retired = page.form.text("q"), kind.retires and page.form.text("retired") == "yes"
    table = shown_table(page, TABLES[kind.name], {"q": text, "retired": "yes" if retired else ""})
    order = ListOrder(table.order_by, table.is_descending) if table.order_by else None
    return _Asked(text, retired, order, table)


def export_shown(kind: AnyRecordKind, page: Page) -> Response:
    """The rows of all pages, with the list's columns and in its order, as a CSV file."""
    asked = _asked(kind, page)
    fields = [kind.field(one.name) for one in asked.table.columns]
    rows = kind.listing.each(page.connection, kind.scope(page), asked.text, retired=asked.retired, order=asked.order)
    values = ([_exported(kind, row, field) for field in fields] for row in rows)
    head = [one.title for one in asked.table.columns]
    return csv_download(f"fuelroute-{kind.name}-list.csv", head, values)


def _exported(kind: AnyRecordKind, row: Any, field: CaptionedField) -> object:
    return kind.shown(row, field) if field.kind == "secret" else getattr(row, field.name)


def show(kind: AnyRecordKind, page: Page) -> Response:
    """The list of a kind's records."""
    number, asked = page.form.number("page", most=100_000), _asked(kind, page)
    found = kind.listing.find(
        page.connection,
        kind.scope(page),
        asked.text,
        retired=asked.retired,
        order=asked.order,
        limit=PAGE_SIZE,
        offset=number * PAGE_SIZE,
    )
    may_edit = page.session.role in kind.may_edit
    return page.render(
        "records.html",
        section=kind.in_navigation,
        kind=kind,
        kinds=[one for one in RECORD_KINDS if one.section == kind.section],
        table=asked.table,
        fields={field.name: field for field in kind.fields},
        found=found,
        may_edit=may_edit,
        may_export_contacts=page.session.role in MAY_EDIT_POLICY and kind.name == "drivers",
        imports=latest_imports(page.connection, kind.company_id(page), kind.name, limit=_IMPORTS) if may_edit else [],
        q=asked.text,
        retired=asked.retired,
        page_number=number,
        most_counted=MOST_COUNTED,
        pages=-(-found.total // PAGE_SIZE),
        done=_DONE.get(page.form.text("done"), ""),
        closures=_closures(kind, page),
        most_megabytes=MAX_FILE_BYTES >> 20,
        most_bytes=MAX_FILE_BYTES,
        columns=columns_of(kind),
    )


def columns_of(kind: AnyRecordKind) -> list[tuple[str, bool]]:
    """The columns of the CSV file, each with whether it is required."""
    return [(field.encode_name, field.required) for field in msgspec.structs.fields(kind.shape)]


def show_new(kind: AnyRecordKind, page: Page) -> Response:
    kind.company_id(page)  # an operator chooses a company first
    return _form(kind, page, None, {})


def show_one(kind: AnyRecordKind, page: Page) -> Response:
    stored = kind.read(page, page.form.text("id"))
    return _form(kind, page, stored, _typed_before(kind, stored))


def _typed_before(kind: RecordKind[Stored, Typed], stored: Stored) -> dict[str, str]:
    """The stored values for the form, without secrets."""
    return {field.name: "" if field.kind == "secret" else as_text(getattr(stored, field.name)) for field in kind.fields}


def _form(
    kind: RecordKind[Stored, Typed],
    page: Page,
    stored: Stored | None,
    typed: dict[str, str],
    *,
    fault: str = "",
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    key = kind.key(stored) if stored is not None else ""
    may_edit = page.session.role in kind.may_edit
    is_retired = stored is not None and kind.is_retired(stored)
    return page.render(
        "record.html",
        status=status,
        section=kind.in_navigation,
        kind=kind,
        stored=stored,
        key=key,
        seen=page.form.text("seen") or _state_of(kind, stored),  # a form that was refused is as old as before
        title=kind.title(stored) if stored is not None else f"A new {kind.one}",
        typed=typed,
        is_retired=is_retired,
        may_edit=may_edit,
        is_open=may_edit and not (is_retired and kind.section == "fleet"),
        may_force=page.session.role in MAY_EDIT_POLICY and kind.section == "fleet",
        entries=_entries(kind, page, key) if stored is not None and may_edit else [],
        closures=_closures(kind, page, key) if stored is not None else [],
        may_close=page.session.role in MAY_DISPATCH,
        until=page.field_of_moment(page.now + USUAL_CLOSURE),
        fault=fault,
        faults=faults or {},
        done=_DONE.get(page.form.text("done"), ""),
        **(_burn_of(page, stored.id) if isinstance(stored, StoredVehicle) else {"burn": None}),
    )


def _closures(kind: AnyRecordKind, page: Page, key: str | None = None) -> list[Closure]:
    """The stations that are closed now for the company or for all; with a key that station's."""
    if kind.name != "stations":
        return []
    return closures_in_force(page.connection, page.session.company_id, station_id=key, now=page.now)


def _burn_of(page: Page, vehicle_id: UUID) -> dict[str, Any]:
    """The burn of a vehicle, for its page."""
    is_sandbox = page.form.text("environment") == Environment.SANDBOX
    tenant = Tenant(page.company_id, Environment.SANDBOX if is_sandbox else Environment.LIVE)
    history = read_burn_history(page.connection, tenant, vehicle_id)
    return {
        "burn": history,
        "burn_chart": draw_burn(history, page.session.time_zone) if history is not None else None,
        "burn_of": tenant.environment,
        "environments": list(Environment),
        "plot": PLOT,
    }


def _entries(kind: AnyRecordKind, page: Page, key: str) -> list[AuditRow]:
    return actions_on_subject(page.connection, kind.company_id(page), kind.audit_subject(key), limit=_ENTRIES)


def _state_of(kind: RecordKind[Stored, Typed], stored: Stored | None) -> str:
    """A hash of the stored row, without its secrets, which shows if another user has changed the row meanwhile."""
    if stored is None:
        return ""
    row = stored._asdict()  # type: ignore[attr-defined]  # a NamedTuple, which no bound of a type variable can say
    secrets = {field.name for field in kind.fields if field.kind == "secret"}
    return state_of([(name, value) for name, value in row.items() if name not in secrets])


def add(kind: AnyRecordKind, page: Page, by: Actor) -> Response:
    return _save(kind, page, None, by)


def save(kind: AnyRecordKind, page: Page, by: Actor) -> Response:
    return _save(kind, page, kind.read(page, page.form.packed("id")), by)


def _save(kind: RecordKind[Stored, Typed], page: Page, stored: Stored | None, by: Actor) -> Response:
    """Store the typed record, or show the form again with its faults."""
    typed = {field.name: _typed(page, field, stored) for field in kind.fields}
    refuse = partial(_form, kind, page, stored, typed)
    if stored is not None and page.form.text("seen") != _state_of(kind, stored):
        return refuse(
            fault=f"Somebody else has changed this {kind.one} in the meantime. Load the page again.", status=409
        )
    try:
        row = read_query({name: value for name, value in typed.items() if value}, kind.shape)
    except Invalid as invalid:
        labels = {field.name: field.label for field in kind.fields}
        faults = {fault.field: fault.message for fault in invalid.faults}
        said = "; ".join(": ".join(filter(None, (labels.get(name, name), text))) for name, text in faults.items())
        return refuse(fault=f"{said}.", faults=faults, status=400)
    changed = _changed(kind, page, stored, row)
    if stored is not None and not changed:
        return see_other(f"/{kind.name}/one?{urlencode({'id': kind.key(stored), 'done': 'same'})}")
    by = by._replace(reason=", ".join(changed) if stored is not None else "by hand")
    try:
        with page.connection.transaction():  # what fails in it leaves the page its connection
            key = kind.save(page, stored, row, by)
    except FuelrouteError as error:
        return refuse(fault=sentence(str(error)), status=409)
    done = "changed" if stored is not None else "added"
    return see_other(f"/{kind.name}/one?{urlencode({'id': key, 'done': done})}")


def _typed(page: Page, field: CaptionedField, stored: object | None) -> str:
    """The typed value, or the stored one if the two differ only in line ends, which browsers remove from a field of one
    line."""
    typed = page.form.text(field.name, most=_LONGEST)
    if stored is None or field.kind == "secret":
        return typed
    before = as_text(getattr(stored, field.name))
    return before if "".join(before.splitlines()).strip() == "".join(typed.splitlines()) else typed


def _changed(kind: RecordKind[Stored, Typed], page: Page, stored: Stored | None, row: Typed) -> list[str]:
    """The labels of the changed fields, without values. An edit brings a retired station back."""
    if stored is None:
        return []
    changed = [
        field.label
        for field in kind.fields
        if field.name not in kind.unit_fields
        and (
            page.form.text(field.name, most=_LONGEST) or page.form.text(f"{field.name}_removed") == "yes"
            if field.kind == "secret"
            else getattr(stored, field.name) != getattr(row, field.name)
        )
    ]
    if page.form.text("price_checked") == "yes":
        changed.append("Day of the price")
    if kind.is_retired(stored):
        changed.append("In use again")
    return changed


def end(kind: AnyRecordKind, page: Page, by: Actor) -> Response:
    """Retire a vehicle, driver or station; remove a deal or tax."""
    stored = kind.read(page, page.form.packed("id"))
    if kind.is_retired(stored):
        raise Refused(409, f"This {kind.one} is retired already", "Somebody else has retired it in the meantime.")
    key = kind.key(stored)
    kind.end(page, stored, by)
    if kind.retires:
        return see_other(f"/{kind.name}/one?{urlencode({'id': key, 'done': 'retired'})}")
    return see_other(f"/{kind.name}?done=removed")


def _addresses_of(kind: AnyRecordKind) -> list[Route]:
    may_edit = kind.may_edit
    return [
        page_at(f"/{kind.name}", partial(show, kind)),
        page_at(f"/{kind.name}/list.csv", partial(export_shown, kind), run=as_download),
        page_at(f"/{kind.name}/new", partial(show_new, kind), by=may_edit),
        action_at(f"/{kind.name}/new", partial(add, kind), by=may_edit),
        page_at(f"/{kind.name}/one", partial(show_one, kind)),
        action_at(f"/{kind.name}/one", partial(save, kind), by=may_edit),
        action_at(f"/{kind.name}/end", partial(end, kind), by=may_edit),
    ]


ADDRESSES = [address for kind in RECORD_KINDS for address in _addresses_of(kind)]
