"""Replays a quarter under other terms."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, acting, known_id
from deploy.cli.failures import CommandFailed
from deploy.cli.output import counting, print_table, screen, show
from deploy.cli.reports import write_file
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.accounts.companies import read_plan_policy, time_zone_of
from domain.database.connections import Tenant
from domain.files.csvfiles import write_records
from domain.ids import shown_id
from domain.ifta.quarters import Quarter
from domain.lifecycle import Environment
from domain.savings.spans import quarter_of
from domain.wording import counted

PROCESSES = 2
"""Processes that solve portions side by side."""

LineKind = Literal["lane", "truck", "week", "state", "chain", "station"]

app = typer.Typer()

_Quarter = Annotated[
    Quarter | None,
    typer.Option("--quarter", parser=Quarter.parse, metavar="YEARQn", help="The quarter, such as 2026Q3."),
]
_Values = Annotated[
    str, typer.Option("--with", metavar="NAME=VALUE,...", help="Other values of the policy: reserve=12,stop_cost=15.")
]
_WithoutBrands = Annotated[
    list[str] | None, typer.Option("--without-brand", metavar="BRAND", help="Trucks do not buy there. Repeatable.")
]
_OnlyBrands = Annotated[
    list[str] | None, typer.Option("--only-brand", metavar="BRAND", help="Trucks buy only there. Repeatable.")
]
_WithoutDeals = Annotated[
    list[str] | None,
    typer.Option(
        "--without-deal",
        metavar="DEAL",
        help="A deal's number, brand or station; `quotes` for price files, `all` for everything. Repeatable.",
    ),
]
_Discounts = Annotated[
    list[str] | None,
    typer.Option("--with-discount", metavar="BRAND=DOLLARS", help="Off the retail price, a gallon. Repeatable."),
]
_Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="TERM",
        help="A term of the first side, such as reserve=15, without-brand=X or discount=X=0.30. Without any, trips"
        " stay as they were. Repeatable.",
    ),
]
_Deals = Annotated[
    bool,
    typer.Option(
        "--deals", help="What each deal of the company earned, and what a cent elsewhere is worth; without other terms."
    ),
]
_Environment = Annotated[Environment, typer.Option("--environment", help="The environment of the routes.")]
_By = Annotated[LineKind, typer.Option("--by", help="One line for each of these.")]
_TripsFile = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the difference trip by trip to a CSV file.")
]
_Earlier = Annotated[
    str, typer.Option("--id", metavar="ID", help="Show a replay that was asked for before; go on where it stopped.")
]


@app.command()
def replay(
    company_id: CompanyId,
    quarter: _Quarter = None,
    with_values: _Values = "",
    without_brands: _WithoutBrands = None,
    only_brands: _OnlyBrands = None,
    without_deals: _WithoutDeals = None,
    discounts: _Discounts = None,
    against: _Against = None,
    weighs_deals: _Deals = False,
    environment: _Environment = Environment.LIVE,
    by: _By = "chain",
    csv_file: _TripsFile = None,
    earlier: _Earlier = "",
    as_json: AsJson = False,
) -> None:
    """Solves every driven trip of a quarter again under another policy, network or deal, and shows the difference.

    Each trip keeps its own prices, fuel level and road. Both sides are solved, so only the difference counts. Ctrl-C
    stops; `--id` goes on. Trips whose inputs or prices are not known any more are counted and left out.
    """
    if bool(earlier) == (quarter is not None):
        raise typer.BadParameter("give a quarter, or the id of an earlier replay")
    if quarter is None:
        replay_id = _resume(company_id, earlier)
    else:
        after = [
            *(text for text in with_values.split(",") if text.strip()),
            *(f"without-brand={one}" for one in without_brands or ()),
            *(f"only-brand={one}" for one in only_brands or ()),
            *(f"without-deal={one}" for one in without_deals or ()),
            *(f"discount={one}" for one in discounts or ()),
        ]
        replay_id = _start(Tenant(company_id, environment), quarter, against or [], after, weighs_deals)
    _solve(company_id, replay_id, quiet=as_json)
    _show(company_id, replay_id, by, csv_file, as_json)


def _start(tenant: Tenant, quarter: Quarter, before: list[str], after: list[str], weighs_deals: bool) -> UUID:
    from domain.replay.replays import start_replay  # loads the optimizer
    from domain.replay.terms import parse_terms, replay_terms

    with transaction_about(tenant.company_id) as connection:
        policy = read_plan_policy(connection, tenant.company_id)
        terms = replay_terms(policy, parse_terms(before), parse_terms(after), weighs_deals=weighs_deals)
        span = quarter_of(quarter.first_day, time_zone_of(connection, tenant.company_id))
        return start_replay(connection, tenant, span, terms, acting(), by_workers=False, now=clock.now())


def _resume(company_id: UUID, shown: str) -> UUID:
    from domain.replay.replays import UnknownReplay, resume_replay

    replay_id = known_id("rpl", shown, UnknownReplay)
    with transaction_about(company_id) as connection:
        resume_replay(connection, company_id, replay_id, acting(), by_workers=False, now=clock.now())
    return replay_id


def _solve(company_id: UUID, replay_id: UUID, *, quiet: bool) -> None:
    """Solves the portions that are left, in processes of its own. Raises CommandFailed where one of them died."""
    from domain.replay.portions import finish_replay
    from domain.replay.replays import progress_of, stop_replay

    with transaction() as connection:
        progress = progress_of(connection, replay_id)
    try:
        with counting("trips", progress.trips, quiet=quiet) as advance:
            advance(progress.solved)
            for trips in _solved_portions(replay_id, progress.portions_left):
                advance(trips)
    except (KeyboardInterrupt, BrokenProcessPool) as stopped:
        with transaction() as connection:
            stop_replay(connection, company_id, replay_id, acting(), now=clock.now())
        why = "stopped" if isinstance(stopped, KeyboardInterrupt) else "a process died"
        raise CommandFailed(f"{why}: go on with --id {shown_id('rpl', replay_id)}") from None
    finish_replay(transaction, replay_id, now=clock.now())


def _solved_portions(replay_id: UUID, portions: int) -> Iterator[int]:
    """The numbers of trips of the portions, as they are solved."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("fork"), initializer=_begin_process) as pool:
        try:
            yield from pool.map(_solve_one, [replay_id] * portions)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _begin_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command stops its processes itself


def _solve_one(replay_id: UUID) -> int:
    from domain.replay.portions import solve_next_portion

    return solve_next_portion(transaction, replay_id, now=clock.now()) or 0


def _show(company_id: UUID, replay_id: UUID, by: LineKind, csv_file: Path | None, as_json: bool) -> None:
    from domain.replay.export import REPLAYED_TRIP_COLUMNS, replay_document, trip_row
    from domain.replay.networks import never_used
    from domain.replay.portions import results_of
    from domain.replay.replays import REPLAYS, progress_of

    with transaction() as connection:
        found = REPLAYS.find(connection, company_id, replay_id)
        summary = found.read_summary
        unused = never_used(connection, company_id, summary, **found.days) if summary is not None else []
        document = replay_document(found, progress_of(connection, replay_id).solved, unused)
        if summary is None and csv_file is not None:
            raise CommandFailed(f"the replay is {found.status}: {csv_file} is written once all trips are solved")
        rows = map(trip_row, results_of(connection, replay_id))
        write_file(csv_file, lambda file: write_records(file, REPLAYED_TRIP_COLUMNS, rows))
    show(as_json, document, lambda: _print(document, by, csv_file))


def _print(document: dict[str, Any], by: LineKind, csv_file: Path | None) -> None:
    head = f"{document['replay_id']}: {document['from']} to {document['to']} ({document['time_zone']})"
    screen.print(f"{head}, {document['status']}", highlight=False)
    for side in ("before", "after"):
        screen.print(f"{side}: {', '.join(document[f'terms_{side}']) or 'as it was'}", highlight=False)
    if "totals" in document:
        _print_result(document, by)
    if csv_file is not None:
        screen.print(f"wrote {csv_file}")


def _print_result(document: dict[str, Any], by: LineKind) -> None:
    print_table([{"figure": name, **row} for name, row in document["totals"].items()], *_TOTALS)
    lines = document["lines"][by]
    if lines:
        print_table(lines[:_MOST_LINES], *lines[0])
    for title, rows in (
        ("deals", document.get("deals")),
        ("chains without a deal", document.get("off_chains")),
        ("stations without a deal", document.get("off_network")),
    ):
        if rows:
            screen.print(f"\n{title}")
            print_table(rows[:_MOST_LINES], *rows[0])
    if document.get("never_used"):
        screen.print(f"\nnever used: {'; '.join(one['name'] for one in document['never_used'])}", highlight=False)
    left_out = "; ".join(f"{counted(count, 'trip')}: {why}" for why, count in document["left_out"].items())
    screen.print(f"{counted(document['compared'], 'trip')} compared{left_out and f'; not in the sums: {left_out}'}")
    screen.print(document["basis"])


_TOTALS = ("figure", "before", "after", "difference")
_MOST_LINES = 30
