"""The command of the random machine: `python -m tests.chaos --seed N --faults N --pushes N`."""

import signal
import statistics
import sys
from collections import Counter
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deploy.cli.output import screen
from tests.benchmarks.harness import new_progress
from tests.chaos.faults import FAULTS
from tests.chaos.machine import QUICK, Outcome, Plan, Violation, run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def chaos(
    seed: Annotated[str, typer.Option(help="Draws the same faults and the same traffic again.")] = "1",
    faults: Annotated[int, typer.Option(min=1, metavar="N", help="Number of faults.")] = 50,
    pushes: Annotated[int, typer.Option(min=1, metavar="N", help="Pushes in all, at least.")] = 5_000,
    together: Annotated[int, typer.Option(min=1, metavar="N", help="Faults before the system may become quiet.")] = 1,
    seconds: Annotated[float | None, typer.Option(metavar="S", help="No fault begins later.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="FAULT", help="Draw only this kind. Give it once for each kind.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="The service runs with its own settings: lost work is found later.")
    ] = False,
) -> None:
    """Breaks a stack of its own under load, and checks after each fault that nothing is lost, doubled or stuck.

    A seed repeats the faults and the traffic. It cannot repeat the timing.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as with Ctrl-C, what was started is stopped
    unknown = sorted(set(only or ()) - {fault.name for fault in FAULTS})
    if unknown:
        raise typer.BadParameter(f"{unknown[0]}; choose from {', '.join(fault.name for fault in FAULTS)}")
    plan = Plan(seed, faults, pushes, together, seconds, only=only or (), settings={} if defaults else QUICK)
    outcome, told = Outcome(), 0
    try:
        with new_progress(screen) as progress:
            task = progress.add_task("chaos", total=faults)

            def show(number: int, so_far: Outcome, now: str) -> None:
                nonlocal outcome, told
                outcome = so_far
                progress.update(task, completed=number, description=f"{so_far.pushes} pushes: {now}")
                if not screen.is_terminal and number >= told + 20:
                    told = number
                    screen.print(f"{number} faults, {so_far.pushes} pushes", highlight=False)
                for one in so_far.new_violations():
                    print_violation(one, progress.console)

            outcome = run(plan, show)
    finally:
        print_outcome(plan, outcome, screen)
    if outcome.violations:
        sys.exit(1)


def print_violation(one: Violation, screen: Console) -> None:
    """Prints everything that is needed to look for it again, beside the seed."""
    text = f"VIOLATION after fault {one.fault_number}, {one.fault}: {one.what}"
    screen.print(text, style="red", soft_wrap=True, highlight=False)


def print_outcome(plan: Plan, outcome: Outcome, screen: Console) -> None:
    """The figures of a run, as far as it came."""
    table = Table(box=None, pad_edge=False)
    table.add_column("fault")
    table.add_column("times", justify="right")
    table.add_column("quiet after, s: median", justify="right")
    table.add_column("longest", justify="right")
    for name, times in sorted(outcome.faults.items()):
        waits = [wait for fault, wait in outcome.quiet_after if fault == name] or [0.0]
        table.add_row(name, str(times), f"{statistics.median(waits):.1f}", f"{max(waits):.1f}")
    screen.print(table, highlight=False)
    for name, reason in outcome.skipped.items():
        screen.print(f"left out: {name}: {reason}", highlight=False)
    answers = ", ".join(f"{status or 'none'}: {count}" for status, count in sorted(outcome.statuses.items()))
    screen.print(
        f"seed {plan.seed}: {sum(outcome.faults.values())} faults, {outcome.pushes} pushes, {outcome.routes} routes,"
        f" {outcome.checks} comparisons with the model\nanswers: {answers}\nmessages: {dict(outcome.messages)},"
        f" of which {outcome.waiting} wait for their next attempt",
        highlight=False,
    )
    for name, times in Counter(name for name, _ in outcome.deaths).items():
        words = [words for one, words in outcome.deaths if one == name]
        screen.print(f"{name} ended by itself {times} times, the last time with {words[-1]}", highlight=False)
    if outcome.logs is not None:
        screen.print(f"the logs of its processes are in {outcome.logs}", highlight=False)
    screen.print(f"{len(outcome.violations)} violations", highlight=False)


if __name__ == "__main__":
    app(prog_name="python -m tests.chaos")
