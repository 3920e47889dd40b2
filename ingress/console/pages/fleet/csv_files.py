"""CSV files of the pages Fleet and Stations: imports with their progress, and exports that can be imported again."""

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor
from domain.fleet import drivers
from domain.operations import import_records
from ingress.console.addresses import action_at, as_download, page_at, upload_at
from ingress.console.downloads import csv_download
from ingress.console.importer import Upload
from ingress.console.pages.imports import begin_import, read_import, show_import
from ingress.console.record_kinds import DRIVERS, RECORD_KINDS, AnyRecordKind
from ingress.console.signed_in import Page


def require_no_import(kind: AnyRecordKind, page: Page) -> None:
    """Check that no other import runs, before a file is read. Raises ImportRunning if one does."""
    import_records.require_none(page.connection, kind.company_id(page), now=page.now)


def take(kind: AnyRecordKind, page: Page, upload: Upload) -> Response:
    return begin_import(page, upload, kind.file(page, upload.path), f"/{kind.name}/imports")


def show(kind: AnyRecordKind, page: Page) -> Response:
    """Show the progress and the result of an import, or the part of that page that refreshes itself."""
    stored = read_import(page, kind.company_id(page), [kind.name])
    return show_import(page, stored, "import.html", section=kind.in_navigation, kind=kind)


def export(kind: AnyRecordKind, page: Page) -> Response:
    """The rows that are not retired, as a CSV file. An import of the unchanged file changes nothing. It has no
    contacts, and an import then keeps the stored ones."""
    names = [name for name in kind.shape.__struct_fields__ if name != "contact"]
    rows = kind.listing.all(page.connection, kind.scope(page))
    return csv_download(f"fuelroute-{kind.name}.csv", names, ([getattr(row, name) for name in names] for row in rows))


def export_contacts(page: Page, by: Actor) -> Response:
    """The drivers with their contacts, which are secrets: the file is for owners, and recorded in the audit log."""
    names = DRIVERS.shape.__struct_fields__
    rows = drivers.export_contacts(page.connection, page.company_id, by, contacts=page.console.contacts)
    return csv_download(
        f"fuelroute-{DRIVERS.name}-contacts.csv", names, ([getattr(row, name) for name in names] for row in rows)
    )


def _addresses_of(kind: AnyRecordKind) -> list[Route]:
    name, may_edit = kind.name, kind.may_edit
    return [
        upload_at(f"/{name}/import", partial(take, kind), by=may_edit, check=partial(require_no_import, kind)),
        page_at(f"/{name}/imports/{{id}}", partial(show, kind), by=may_edit),
        page_at(f"/{name}.csv", partial(export, kind), run=as_download),
    ]


ADDRESSES = [
    *(address for kind in RECORD_KINDS for address in _addresses_of(kind)),
    action_at(f"/{DRIVERS.name}/contacts.csv", export_contacts, by=MAY_EDIT_POLICY, run=as_download),
]
