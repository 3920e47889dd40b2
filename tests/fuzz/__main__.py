"""The fuzz: sends the service what nobody would send on purpose.

python -m tests.fuzz [--cases N] [--seed N] [--only api|bytes|feed|csv|console]
"""

import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated

import structlog
import typer
from hypothesis.errors import HypothesisWarning
from rich.progress import Progress

from deploy.cli.failures import CommandFailed, run
from deploy.cli.output import errors, screen
from domain.text import printable
from tests.fuzz.api import Api
from tests.fuzz.clients import Keys
from tests.fuzz.connections import Bytes
from tests.fuzz.csv_files import CsvFiles
from tests.fuzz.engine import Finding, Outcome, Part, run_part
from tests.fuzz.feed import Feed
from tests.fuzz.forms import Forms
from tests.fuzz.stack import Stack, running_stack
from tests.fuzz.wire import both_servers
from tests.repeatable import draw_the_same_examples

SHARES = {"bytes": 0.6, "api": 0.06, "feed": 0.14, "csv": 0.12, "console": 0.08}
"""The share of each part in all cases. The quick ones get more."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def parts_of(stack: Stack, open_until_end: ExitStack) -> dict[str, Callable[[], Part]]:
    """The parts by name, each made when its turn comes."""
    keys = open_until_end.enter_context(Keys(stack.service))
    return {
        "bytes": lambda: Bytes(open_until_end.enter_context(both_servers()), keys, stack.console.url),
        "api": lambda: Api(keys),
        "feed": lambda: Feed(keys),
        "csv": lambda: CsvFiles(stack.console),
        "console": lambda: Forms(stack),
    }


@app.command()
def fuzz(
    cases: Annotated[int, typer.Option("--cases", min=1, metavar="N", help="Cases in all.")] = 5_000,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the first block of cases.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="PART", help=f"One of {', '.join(SHARES)}; all unless named.")
    ] = None,
) -> None:
    """Sends the service what nobody would send on purpose.

    It starts a service of its own. The exit status is 1 when something was found: a 5xx, no answer, an answer that is
    not as described, a job that failed, or a good row that a bad one stopped.
    """
    chosen = only or list(SHARES)
    unknown = sorted(set(chosen) - SHARES.keys())
    if unknown:
        raise CommandFailed(f"no such part: {', '.join(unknown)}; choose from {', '.join(SHARES)}")
    draw_the_same_examples()
    logging.disable(logging.CRITICAL)  # uvicorn's, which warns of each malformed request
    warnings.simplefilter("ignore", HypothesisWarning)  # of large cases
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    whole = sum(SHARES[name] for name in chosen)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with running_stack() as stack, ExitStack() as open_until_end, Progress(console=errors) as bar:
        makers = parts_of(stack, open_until_end)
        for name in chosen:
            if any(outcome.counts["stopped by hand"] for outcome in outcomes):
                break
            size = max(round(cases * SHARES[name] / whole), 1)
            task = bar.add_task(name, total=size)
            part = makers[name]()
            outcomes.append(
                run_part(
                    part,
                    seed=seed,
                    cases=size,
                    advance=partial(bar.advance, task),
                    after=stack.require_no_errors,
                    tell=partial(_tell, bar),
                )
            )
    report(outcomes, time.monotonic() - began)


def _tell(bar: Progress, finding: Finding) -> None:
    bar.console.print(printable(str(finding), keep="\n"), highlight=False, markup=False, soft_wrap=True)


def report(outcomes: list[Outcome], seconds: float) -> None:
    """Print what the cases came to. Ends the program with status 1 when something was found."""
    for outcome in outcomes:
        found = len(outcome.findings)
        screen.print(f"{outcome.part}: {outcome.cases:,} cases in {outcome.seconds:.0f} s, {found} findings")
        for name, count in sorted(outcome.counts.items()):
            screen.print(f"    {count:8,}  {name}", highlight=False, markup=False)
    total, findings = sum(one.cases for one in outcomes), sum(len(one.findings) for one in outcomes)
    screen.print(f"{total:,} cases in {seconds:.0f} s: {findings} findings")
    if findings:
        sys.exit(1)


if __name__ == "__main__":
    run(lambda: app(prog_name="python -m tests.fuzz"))
