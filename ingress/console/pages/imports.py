"""The common part of pages with imported files: the beginning of an import, the refusal of two at a time, the latest
files, and the progress and the result of one."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from starlette.responses import Response

from domain.files.csvfiles import UnreadableFile
from domain.fills.card_files import Volume
from domain.ids import shown_id
from domain.lifecycle import Environment
from domain.operations import import_records
from domain.operations.import_kinds import EnvironmentFile, ImportFile
from domain.operations.import_records import StoredImport
from ingress.console.importer import Upload, fault_of_file
from ingress.console.refusals import Refused, known, not_found
from ingress.console.signed_in import Page, see_other

_FILES = 5


def latest_files(page: Page, file: type[EnvironmentFile]) -> list[tuple[Environment, StoredImport]]:
    """The last files of both environments, the newest first."""
    latest = [
        (environment, one)
        for environment in Environment
        for one in import_records.latest_imports(
            page.connection, page.company_id, file.kind_in(environment), limit=_FILES
        )
    ]
    return sorted(latest, key=lambda one: one[1].id, reverse=True)[:_FILES]


def require_no_import(page: Page) -> None:
    """Check that no other import runs, before a file is read. Raises ImportRunning if one does."""
    import_records.require_none(page.connection, page.company_id, now=page.now)


def unreadable(error: UnreadableFile, file: ImportFile) -> Refused:
    return Refused(400, "This file cannot be read", fault_of_file(error, file.path))


_VOLUMES: dict[str, Volume] = {"gallons": "gallons", "litres": "litres"}
_CURRENCIES = {"USD": "USD", "CAD": "CAD"}


def volume_and_currency(page: Page) -> tuple[Volume, str]:
    """The unit of quantities and the currency that the person chose for a card's file; empty without a choice."""
    return _VOLUMES.get(page.form.text("volume"), ""), _CURRENCIES.get(page.form.text("currency"), "")


def begin_import(page: Page, upload: Upload, file: ImportFile, folder: str) -> Response:
    """Begin the import of an arrived file, and show the page below `folder` that follows it. Raises ImportRunning if
    another one runs."""
    stored = import_records.begin(
        page.connection, file.company_id, file.kind, page.session.email, rows_total=file.rows_total(), now=page.now
    )
    page.afterwards.append(lambda: page.console.importer.start(stored, upload, file))
    return see_other(f"{folder}/{shown_id('imp', stored.id)}")


def show_file(page: Page, file: type[EnvironmentFile], template: str, section: str) -> Response:
    """Show the progress and the result, or the part of that page that refreshes itself."""
    stored = read_import(page, page.company_id, file.kinds())
    environment = next(one for one in Environment if file.kind_in(one) == stored.kind)
    return show_import(page, stored, template, section=section, environment=environment)


def read_import(page: Page, company_id: UUID | None, kinds: Sequence[str]) -> StoredImport:
    """The import in the address. Raises Refused if the company has no such import."""
    import_records.close_silent(page.connection, now=page.now)
    stored = known(import_records.read_import(page.connection, company_id, page.id_in_address("imp")))
    if stored.kind not in kinds:
        raise not_found()
    return stored


def show_import(page: Page, stored: StoredImport, template: str, **more: Any) -> Response:
    rejected = import_records.rejected_rows(page.connection, stored)
    return page.render(
        f"_{template}" if page.is_fragment else template,
        stored=stored,
        shown=shown_id("imp", stored.id),
        rejected=[(row["line"], row["message"]) for row in rejected],
        **more,
    )
