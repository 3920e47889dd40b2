"""CSV files of the pages Fleet and Stations: imports with their progress, and exports that can be imported again."""

from collections.abc import Iterable
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor
from domain.files.csvfiles import write_rows
from domain.fleet import drivers
from domain.operations import import_records
from ingress.console.addresses import action_at, as_download, page_at, upload_at
from ingress.console.downloads import Download
from ingress.console.importer import Upload
from ingress.console.pages.imports import begin_import, read_import, show_import
from ingress.console.signed_in import Page
from ingress.console.subjects import DRIVERS, SUBJECTS, AnySubject


def require_no_import(subject: AnySubject, page: Page) -> None:
    """Check that no other import runs, before a file is read. Raises ImportRunning if one does."""
    import_records.require_none(page.connection, subject.company_id(page), now=page.now)


def take(subject: AnySubject, page: Page, upload: Upload) -> Response:
    return begin_import(page, upload, subject.file(page, upload.path), f"/{subject.name}/imports")


def show(subject: AnySubject, page: Page) -> Response:
    """Show the progress and the result of an import, or the part of that page that refreshes itself."""
    stored = read_import(page, subject.company_id(page), [subject.name])
    return show_import(page, stored, "import.html", section=subject.section, subject=subject)


def export(subject: AnySubject, page: Page) -> Response:
    """The rows that are not retired, as a CSV file. An import of the unchanged file changes nothing. It has no
    contacts, and an import then keeps the stored ones."""
    names = [name for name in subject.shape.__struct_fields__ if name != "contact"]
    rows = subject.listing.all(page.connection, subject.scope(page))
    return _csv(f"fuelroute-{subject.name}.csv", names, ([getattr(row, name) for name in names] for row in rows))


def export_contacts(page: Page, by: Actor) -> Response:
    """The drivers with their contacts, which are secrets: the file is for owners, and recorded in the audit log."""
    names = DRIVERS.shape.__struct_fields__
    rows = drivers.export_contacts(page.connection, page.company_id, by, contacts=page.console.contacts)
    return _csv(
        f"fuelroute-{DRIVERS.name}-contacts.csv", names, ([getattr(row, name) for name in names] for row in rows)
    )


def _csv(name: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Response:
    """A file with the byte order mark at its beginning, by which spreadsheets recognize UTF-8."""
    return Download(name, lambda file: write_rows(file, list(columns), rows), encoding="utf-8-sig")


def _addresses_of(subject: AnySubject) -> list[Route]:
    name, may_edit = subject.name, subject.may_edit
    return [
        upload_at(f"/{name}/import", partial(take, subject), by=may_edit, check=partial(require_no_import, subject)),
        page_at(f"/{name}/imports/{{id}}", partial(show, subject), by=may_edit),
        page_at(f"/{name}.csv", partial(export, subject), run=as_download),
    ]


ADDRESSES = [
    *(address for subject in SUBJECTS for address in _addresses_of(subject)),
    action_at(f"/{DRIVERS.name}/contacts.csv", export_contacts, by=MAY_EDIT_POLICY, run=as_download),
]
