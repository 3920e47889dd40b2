"""`fuelroute doctor`: is the service in order?"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from deploy.cli.arguments import AsJson
from deploy.cli.output import errors, screen, show
from domain import clock
from domain.operations.doctor.examination import CHECKS, CheckResult, ExaminationProgress, examine, is_healthy
from domain.settings import get_settings
from domain.text import printable, without_secrets
from domain.wording import counted

app = typer.Typer()


@app.command()
def doctor(
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=86_400, metavar="S", help="How long all checks may take together.")
    ] = 60,
    examples: Annotated[
        int, typer.Option("--examples", min=1, max=1000, metavar="N", help="The most examples of a finding.")
    ] = 5,
    plans: Annotated[
        int, typer.Option("--plans", min=2, max=100_000, metavar="N", help="How many stored plans to drive again.")
    ] = 400,
    as_json: AsJson = False,
) -> None:
    """Checks servers, settings and data, and says for each finding what to do. It changes nothing.

    The exit status is 1 when there is a problem. Warnings, and checks that ran out of time, leave it at 0.
    """
    with _progress(quiet=as_json or not errors.is_terminal) as told:
        results = examine(
            get_settings(),
            seconds=seconds,
            most_examples=examples,
            plans=plans,
            told=told,
            checks=CHECKS,
        )
    document = _document(results, clock.now())
    show(as_json, document, lambda: _print(document))
    if not is_healthy(results):
        raise typer.Exit(1)


def _document(results: list[CheckResult], checked_at: datetime) -> dict[str, Any]:
    return {
        "healthy": is_healthy(results),
        "checked_at": checked_at,
        "seconds": round(sum(result.seconds for result in results), 3),
        "findings": [
            {
                "check": result.check,
                "level": "problem" if finding.is_problem else "warning",
                "what": without_secrets(finding.what),
                "what_to_do": finding.what_to_do,
                "examples": list(finding.examples),
            }
            for is_problem in (True, False)
            for result in results
            for finding in result.findings
            if finding.is_problem is is_problem
        ],
        "checks": [
            {
                "check": result.check,
                "finished": result.unfinished is None,
                "unfinished": without_secrets(result.unfinished) if result.unfinished is not None else None,
                "seconds": round(result.seconds, 3),
                "findings": len(result.findings),
            }
            for result in results
        ],
    }


def _print(document: dict[str, Any]) -> None:
    def say(text: str, style: str | None = None) -> None:
        screen.print(printable(text), highlight=False, soft_wrap=True, style=style)

    for finding in document["findings"]:
        is_problem = finding["level"] == "problem"
        mark = "PROBLEM" if is_problem else "warning"
        say(f"{mark}  {finding['what']}.", style="red" if is_problem else "yellow")
        say(f"         {finding['what_to_do']}.")
        if finding["examples"]:
            say(f"         {', '.join(finding['examples'])}")
    for check in document["checks"]:
        if not check["finished"]:
            say(f"not finished: {check['check']}: {check['unfinished']}")
    problems = sum(finding["level"] == "problem" for finding in document["findings"])
    say(
        f"{counted(len(document['checks']), 'check')} in {document['seconds']:.1f} s:"
        f" {counted(problems, 'problem')}, {counted(len(document['findings']) - problems, 'warning')}"
    )


@contextmanager
def _progress(*, quiet: bool) -> Iterator[ExaminationProgress]:
    """A bar on a terminal: one step for each check, and the finished part of the running one."""
    if quiet:
        yield lambda _, __: None
        return
    names = [check.name for check in CHECKS]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("doctor", total=len(names))
        yield lambda name, done: bar.update(task, description=name, completed=names.index(name) + done)
