"""The pages Fleet and Stations: for each subject a list to search, and a form to add, edit, retire or remove a record.
`subjects` has the differences between vehicles, drivers, stations, deals and taxes."""

import hashlib
import re
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor, AuditRow, actions_on_subject
from domain.contract.captions import CaptionedField
from domain.contract.checking import Invalid, read_query
from domain.database.listing import MOST_COUNTED, ListOrder
from domain.errors import FuelrouteError
from domain.files.csvfiles import write_rows
from domain.operations.import_records import StoredImport, latest_imports
from domain.wording import sentence
from ingress.console.addresses import action_at, as_download, page_at
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.downloads import Download
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page, see_other
from ingress.console.subjects import SUBJECTS, AnySubject, Stored, Subject, Typed, as_text
from ingress.console.tables import Column, ListTable, ShownTable, shown_table

PAGE_SIZE = 50
_LONGEST = 4_000
"""Most characters of a typed text. The shapes have the limit of each field."""
_ENTRIES = 10
_IMPORTS = 5

_DONE = {
    "added": "It is added.",
    "changed": "The changes are saved.",
    "same": "Nothing was changed.",
    "retired": "It is retired.",
    "removed": "It is removed.",
}


def _table_of(subject: AnySubject) -> ListTable:
    columns = [
        Column(
            field.name,
            field.label,
            is_sortable=field.kind != "secret",
            is_number=field.kind == "number",
            is_usual=field.name in subject.listed,
        )
        for field in _listed_first(subject)
    ]
    return ListTable(subject.name, f"/{subject.name}", columns, order="")


def _listed_first(subject: AnySubject) -> list[CaptionedField]:
    listed = [subject.field(name) for name in subject.listed]
    return [*listed, *(field for field in subject.fields if field.name not in subject.listed)]


TABLES = {subject.name: _table_of(subject) for subject in SUBJECTS}


class _Asked(NamedTuple):
    """The rows that an address asks for, and the table that shows them."""

    text: str
    retired: bool
    order: ListOrder | None
    table: ShownTable


def _asked(subject: AnySubject, page: Page) -> _Asked:
    text, retired = page.form.text("q"), subject.retires and page.form.text("retired") == "yes"
    table = shown_table(page, TABLES[subject.name], {"q": text, "retired": "yes" if retired else ""})
    order = ListOrder(table.order_by, table.is_descending) if table.order_by else None
    return _Asked(text, retired, order, table)


def export_shown(subject: AnySubject, page: Page) -> Response:
    """The rows of all pages, with the list's columns and in its order, as a CSV file."""
    asked = _asked(subject, page)
    fields = [subject.field(one.name) for one in asked.table.columns]
    rows = subject.listing.each(
        page.connection, subject.scope(page), asked.text, retired=asked.retired, order=asked.order
    )
    values = ([_exported(subject, row, field) for field in fields] for row in rows)
    head = [one.title for one in asked.table.columns]
    return Download(
        f"fuelroute-{subject.name}-list.csv", lambda file: write_rows(file, head, values), encoding="utf-8-sig"
    )


def _exported(subject: AnySubject, row: Any, field: CaptionedField) -> object:
    return subject.shown(row, field) if field.kind == "secret" else getattr(row, field.name)


def show(subject: AnySubject, page: Page) -> Response:
    """The list of a subject's records."""
    number, asked = page.form.number("page", most=100_000), _asked(subject, page)
    found = subject.listing.find(
        page.connection,
        subject.scope(page),
        asked.text,
        retired=asked.retired,
        order=asked.order,
        limit=PAGE_SIZE,
        offset=number * PAGE_SIZE,
    )
    may_edit = page.session.role in subject.may_edit
    return page.render(
        "records.html",
        section=subject.section,
        subject=subject,
        subjects=[one for one in SUBJECTS if one.section == subject.section],
        table=asked.table,
        fields={field.name: field for field in subject.fields},
        found=found,
        may_edit=may_edit,
        may_export_contacts=page.session.role in MAY_EDIT_POLICY and subject.name == "drivers",
        imports=_latest_imports(subject, page) if may_edit else [],
        q=asked.text,
        retired=asked.retired,
        page_number=number,
        most_counted=MOST_COUNTED,
        pages=-(-found.total // PAGE_SIZE),
        done=_DONE.get(page.form.text("done"), ""),
        most_megabytes=MAX_FILE_BYTES >> 20,
        most_bytes=MAX_FILE_BYTES,
        columns=columns_of(subject),
    )


def _latest_imports(subject: AnySubject, page: Page) -> list[StoredImport]:
    return latest_imports(page.connection, subject.company_id(page), subject.name, limit=_IMPORTS)


def columns_of(subject: AnySubject) -> list[tuple[str, bool]]:
    """The columns of the CSV file, each with whether it is required."""
    return [(field.encode_name, field.required) for field in msgspec.structs.fields(subject.shape)]


def show_new(subject: AnySubject, page: Page) -> Response:
    subject.company_id(page)  # an operator chooses a company first
    return _form(subject, page, None, {})


def show_one(subject: AnySubject, page: Page) -> Response:
    stored = subject.read(page, page.form.text("id"))
    return _form(subject, page, stored, _typed_before(subject, stored))


def _typed_before(subject: Subject[Stored, Typed], stored: Stored) -> dict[str, str]:
    """The stored values for the form, without secrets."""
    return {
        field.name: "" if field.kind == "secret" else as_text(getattr(stored, field.name)) for field in subject.fields
    }


def _form(
    subject: Subject[Stored, Typed],
    page: Page,
    stored: Stored | None,
    typed: dict[str, str],
    *,
    fault: str = "",
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    key = subject.key(stored) if stored is not None else ""
    may_edit = page.session.role in subject.may_edit
    is_retired = stored is not None and subject.is_retired(stored)
    return page.render(
        "record.html",
        status=status,
        section=subject.section,
        subject=subject,
        stored=stored,
        key=key,
        seen=_state_of(subject, stored),
        title=subject.title(stored) if stored is not None else f"A new {subject.one}",
        typed=typed,
        is_retired=is_retired,
        may_edit=may_edit,
        is_open=may_edit and not (is_retired and subject.section == "fleet"),
        may_force=page.session.role in MAY_EDIT_POLICY and subject.section == "fleet",
        entries=_entries(subject, page, key) if stored is not None and may_edit else [],
        fault=fault,
        faults=faults or {},
        done=_DONE.get(page.form.text("done"), ""),
    )


def _entries(subject: AnySubject, page: Page, key: str) -> list[AuditRow]:
    return actions_on_subject(page.connection, subject.company_id(page), subject.audit_subject(key), limit=_ENTRIES)


def _state_of(subject: Subject[Stored, Typed], stored: Stored | None) -> str:
    """A hash of the stored row, without its secrets, which shows if another user has changed the row meanwhile."""
    if stored is None:
        return ""
    row = stored._asdict()  # type: ignore[attr-defined]  # a NamedTuple, which no bound of a type variable can say
    values = [(name, value) for name, value in row.items() if name not in _secrets(subject)]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def _secrets(subject: AnySubject) -> Collection[str]:
    return {field.name for field in subject.fields if field.kind == "secret"}


def add(subject: AnySubject, page: Page, by: Actor) -> Response:
    return _save(subject, page, None, by)


def save(subject: AnySubject, page: Page, by: Actor) -> Response:
    return _save(subject, page, subject.read(page, page.form.packed("id")), by)


def _save(subject: Subject[Stored, Typed], page: Page, stored: Stored | None, by: Actor) -> Response:
    """Store the typed record, or show the form again with its faults."""
    typed = {field.name: _typed(page, field, stored) for field in subject.fields}
    refuse = partial(_form, subject, page, stored, typed)
    if stored is not None and page.form.text("seen") != _state_of(subject, stored):
        return refuse(
            fault=f"Somebody else has changed this {subject.one} in the meantime. Load the page again.", status=409
        )
    try:
        row = read_query({name: value for name, value in typed.items() if value}, subject.shape)
    except Invalid as invalid:
        labels = {field.name: field.label for field in subject.fields}
        faults = {fault.field: plain_words(fault.message) for fault in invalid.faults}
        said = "; ".join(": ".join(filter(None, (labels.get(name, name), text))) for name, text in faults.items())
        return refuse(fault=f"{said}.", faults=faults, status=400)
    changed = _changed(subject, page, stored, row)
    if stored is not None and not changed:
        return see_other(f"/{subject.name}/one?{urlencode({'id': subject.key(stored), 'done': 'same'})}")
    by = by._replace(reason=", ".join(changed) if stored is not None else "by hand")
    try:
        with page.connection.transaction():  # what fails in it leaves the page its connection
            key = subject.save(page, stored, row, by)
    except FuelrouteError as error:
        return refuse(fault=sentence(str(error)), status=409)
    done = "changed" if stored is not None else "added"
    return see_other(f"/{subject.name}/one?{urlencode({'id': key, 'done': done})}")


def _typed(page: Page, field: CaptionedField, stored: object | None) -> str:
    """The typed value, or the stored one if the two differ only in line ends, which browsers remove from a field of one
    line."""
    typed = page.form.text(field.name, most=_LONGEST)
    if stored is None or field.kind == "secret":
        return typed
    before = as_text(getattr(stored, field.name))
    return before if "".join(before.splitlines()).strip() == "".join(typed.splitlines()) else typed


def _changed(subject: Subject[Stored, Typed], page: Page, stored: Stored | None, row: Typed) -> list[str]:
    """The labels of the changed fields, without values. An edit brings a retired station back."""
    if stored is None:
        return []
    changed = [
        field.label
        for field in subject.fields
        if field.name not in subject.unit_fields
        and (
            page.form.text(field.name, most=_LONGEST) or page.form.text(f"{field.name}_removed") == "yes"
            if field.kind == "secret"
            else getattr(stored, field.name) != getattr(row, field.name)
        )
    ]
    if page.form.text("price_checked") == "yes":
        changed.append("Day of the price")
    if subject.is_retired(stored):
        changed.append("In use again")
    return changed


def end(subject: AnySubject, page: Page, by: Actor) -> Response:
    """Retire a vehicle, driver or station; remove a deal or tax."""
    stored = subject.read(page, page.form.packed("id"))
    if subject.is_retired(stored):
        raise Refused(409, f"This {subject.one} is retired already", "Somebody else has retired it in the meantime.")
    key = subject.key(stored)
    subject.end(page, stored, by)
    if subject.retires:
        return see_other(f"/{subject.name}/one?{urlencode({'id': key, 'done': 'retired'})}")
    return see_other(f"/{subject.name}?done=removed")


def plain_words(message: str) -> str:
    """A fault of a field in words for people who do not write programs."""
    for name, words in (("float", "a number"), ("int", "a whole number"), ("str", "a text"), ("date", "a day")):
        message = message.replace(f"`{name} | null`", words).replace(f"`{name}`", words)
    message = _ENTRIES_OF_LIST.sub(lambda found: f"{_BOUNDS[found[1]]} {found[2]} entries", message)
    message = _LENGTH.sub(lambda found: f"of {_BOUNDS[found[1]]} {found[2]} characters", message)
    return message.replace(", got a string", "").replace(", got a text", "")


_ENTRIES_OF_LIST = re.compile(r"`array` of length ([<>]=) (\d+)")
_LENGTH = re.compile(r"of length ([<>]=) (\d+)")
_BOUNDS = {"<=": "at most", ">=": "at least"}


def _addresses_of(subject: AnySubject) -> list[Route]:
    may_edit = subject.may_edit
    return [
        page_at(f"/{subject.name}", partial(show, subject)),
        page_at(f"/{subject.name}/list.csv", partial(export_shown, subject), run=as_download),
        page_at(f"/{subject.name}/new", partial(show_new, subject), by=may_edit),
        action_at(f"/{subject.name}/new", partial(add, subject), by=may_edit),
        page_at(f"/{subject.name}/one", partial(show_one, subject)),
        action_at(f"/{subject.name}/one", partial(save, subject), by=may_edit),
        action_at(f"/{subject.name}/end", partial(end, subject), by=may_edit),
    ]


ADDRESSES = [address for subject in SUBJECTS for address in _addresses_of(subject)]
