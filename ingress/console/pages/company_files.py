"""Files that a company brings in an environment: routes, or fills of a fuel card. Their pages share the latest files,
the refusal of two at a time, and the progress and the result of one."""

from collections.abc import Mapping

from starlette.responses import Response

from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.operations import csv_imports
from domain.operations.csv_imports import FillKind, RouteKind, StoredImport
from ingress.console.pages.fleet.fleet_and_stations import plain_words
from ingress.console.refusals import not_found
from ingress.console.signed_in import Page

_FILES = 5


def latest_files(
    page: Page, kinds: Mapping[Environment, RouteKind] | Mapping[Environment, FillKind]
) -> list[tuple[Environment, StoredImport]]:
    """The last files of both environments, the newest first."""
    latest = [
        (environment, one)
        for environment, kind in kinds.items()
        for one in csv_imports.latest_imports(page.connection, page.company_id, kind, limit=_FILES)
    ]
    return sorted(latest, key=lambda one: one[1].id, reverse=True)[:_FILES]


def require_no_import(page: Page) -> None:
    """Refuse a file before it is read, while another import runs. Raises ImportRunning."""
    csv_imports.require_none(page.connection, page.company_id, now=page.now)


def show_file(
    page: Page, kinds: Mapping[Environment, RouteKind] | Mapping[Environment, FillKind], template: str, section: str
) -> Response:
    """The progress and the result; or the part of that page that refreshes itself."""
    import_id = read_id("imp", page.request.path_params["id"])
    csv_imports.close_silent(page.connection, now=page.now)
    stored = csv_imports.read_import(page.connection, page.company_id, import_id) if import_id is not None else None
    environments = {kind: environment for environment, kind in kinds.items()}
    if import_id is None or stored is None or stored.kind not in environments:
        raise not_found()
    return page.render(
        f"_{template}" if page.is_fragment else template,
        section=section,
        stored=stored,
        environment=environments[stored.kind],
        shown=shown_id("imp", import_id),
        rejected=[
            (row["line"], plain_words(row["message"])) for row in csv_imports.rejected_rows(page.connection, stored)
        ],
    )
