"""`fuelroute migrate`: shows what it would do, and does it."""

import os
import signal
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from deploy.cli.arguments import AsJson
from deploy.cli.failures import CommandFailed
from deploy.cli.output import errors, print_table, screen, show, show_sentence
from domain.migrations.plan import MigrationPlan, PlannedMigration, Step
from domain.settings import get_settings
from domain.wording import counted

app = typer.Typer()


@app.command("migrate")
def migrate_schema(
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print what would be done, what it locks and for how long.")
    ] = False,
    or_later: Annotated[
        bool, typer.Option("--or-later", help="Leave the schema of a later release as it is, and succeed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Creates or updates the tables of the database, while the service runs. It may run twice, even at the same time.

    Ctrl-C, or SIGTERM in a container, stops it between two batches of a back-fill, or takes the migration back that was
    running; the next run goes on from there.
    """
    from domain.migrations import LaterSchema, migrate  # Alembic is needed here only
    from domain.migrations.plan import plan_migrations

    url = get_settings().require_direct_url()
    if plan:
        planned = plan_migrations(url)
        show(as_json, planned.as_json(), lambda: _print_plan(planned))
        return
    if os.getpid() == 1:  # of a container: SIGTERM would be ignored, and the migration killed in the end
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _Progress(quiet=as_json) as progress:
        try:
            revision = migrate(url, progress)
        except LaterSchema as later:
            if not or_later:
                raise
            show_sentence(
                as_json, {"revision": later.revision}, f"the schema stays at the later revision {later.revision}"
            )
            return
        except KeyboardInterrupt:
            raise CommandFailed("stopped; the next `fuelroute migrate` goes on from what is committed") from None
    show_sentence(as_json, {"revision": revision}, f"the schema is at revision {revision}")


class _Progress(ExitStack):
    """Shows a migration on the terminal: sentences, and a bar for each back-fill."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet
        self._bars: dict[str, TaskID] = {}
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=errors)

    def tell(self, sentence: str) -> None:
        errors.print(sentence, highlight=False)

    def count(self, revision: str, rows_filled: int, rows_total: int) -> None:
        if self._quiet:
            return
        if not self._bars:
            self.enter_context(self._progress)
        if revision not in self._bars:
            self._bars[revision] = self._progress.add_task(f"back-fill of {revision}", total=rows_total)
        self._progress.update(self._bars[revision], completed=rows_filled, total=rows_total)


def _print_plan(plan: MigrationPlan) -> None:
    if not plan.migrations:
        screen.print(f"the schema is at revision {plan.revision}: there is nothing to do")
        return
    screen.print(f"from revision {plan.revision or '(none: the database is empty)'} to {plan.target}", highlight=False)
    for migration in plan.migrations:
        screen.print(f"\n{migration.revision}  {migration.title}", style="bold", highlight=False)
        _print_migration(migration)


def _print_migration(migration: PlannedMigration) -> None:
    if migration.is_applied:
        screen.print("  is applied; its back-fill has not finished")
    elif not migration.steps:
        screen.print(f"  {counted(migration.statements, 'statement')}: no table that is in use is locked")
    else:
        print_table(
            [_row(step) for step in migration.steps], "table", "lock", "blocks", "work", "rows", "takes_about", "sql"
        )
    for step in migration.steps:
        if step.release_before:
            screen.print(f"  the release before may fail: {step.release_before} ({step.sql[:60]})", highlight=False)
    if migration.backfill_table:
        rows = counted(migration.backfill_rows_left, "row")
        screen.print(
            f"  then a back-fill goes through about {rows} of {migration.backfill_table} in batches, in about"
            f" {_duration(migration.backfill_seconds)}; it blocks only writes of the rows of a batch",
            highlight=False,
        )


def _row(step: Step) -> dict[str, str]:
    return {
        "table": step.table or "?",
        "lock": step.lock,
        "blocks": step.lock.blocks,
        "work": step.work,
        "rows": f"{step.rows:,}",
        "takes_about": _duration(step.seconds),
        "sql": step.sql if len(step.sql) <= 60 else f"{step.sql[:57]}...",
    }


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "an instant"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
