"""Imports by command: a bar of progress, the run, its outcome."""

from typing import TYPE_CHECKING

from deploy.cli.arguments import acting
from deploy.cli.output import counting_lines
from deploy.cli.storing import transaction
from domain.files.csvfiles import ImportReport
from ingress.http.garbage import collect_rarely

if TYPE_CHECKING:
    from domain.operations.import_kinds import ImportFile


def store_file(file: "ImportFile", *, bar: str = "", as_json: bool) -> ImportReport:
    """Stores the file. `bar` names what a bar of progress counts; without it, or with JSON, there is none."""
    from domain.operations.import_runs import ImportRun  # it loads what compares and plans

    collect_rarely()
    with counting_lines(bar, file.path, quiet=as_json or not bar) as progress:
        return ImportRun(file, transaction, acting().name, progress=progress).store()
