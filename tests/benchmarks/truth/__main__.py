"""Judges the plans by drives in a world that differs from what they are made from.

python -m tests.benchmarks.truth --drives 300 --seed 1
python -m tests.benchmarks.truth --world declared --world burns-15 --against ../the-checkout-before
"""

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from tests.benchmarks.harness import new_progress
from tests.benchmarks.truth.driver import LOW_PERCENT, Outcome
from tests.benchmarks.truth.figures import line_of, outcomes_of, table_of
from tests.benchmarks.truth.runs import drives_of, drives_through
from tests.benchmarks.truth.service import running
from tests.benchmarks.truth.world import WORLDS

screen = Console(stderr=True)

TABLE_WIDTH = 170

ELSEWHERE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
folder = sys.argv.pop(1)
spec = spec_from_file_location("tests.benchmarks.truth", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules[spec.name] = module_from_spec(spec)
from tests.benchmarks.truth.__main__ import run
run()
"""
"""The judge of this checkout on the domain of another one."""


def main(
    drives: Annotated[int, typer.Option(min=1, help="Drives in each world.")] = 300,
    seed: Annotated[int, typer.Option(help="The first seed; the worlds of a seed are always the same.")] = 1,
    world: Annotated[list[str] | None, typer.Option(help=f"All unless named: {', '.join(WORLDS)}.")] = None,
    replan_en_route: Annotated[bool, typer.Option(help="The policy's switch for trucks that miss a stop.")] = False,
    margin: Annotated[
        float, typer.Option(metavar="PERCENT", help="Plans keep so much of the tank more than the reserve.")
    ] = 0.0,
    against: Annotated[Path | None, typer.Option(help="Another checkout, with an environment of its own.")] = None,
    service: Annotated[bool, typer.Option(help="Through a service of its own instead of the rules.")] = False,
    failures: Annotated[bool, typer.Option(help="Also print what happened on drives that went low.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print lines of Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the drives.")] = False,
) -> None:
    names = world or list(WORLDS)
    unknown = sorted(set(names) - set(WORLDS))
    if unknown:
        raise typer.BadParameter(f"no such world: {', '.join(unknown)}; choose from {', '.join(WORLDS)}")
    if margin and (service or against):
        raise typer.BadParameter("--margin is for the rules of this checkout alone")
    rows: dict[str, dict[str, list[Outcome]]] = {}
    if against is not None:
        rows["before"] = _elsewhere(against, drives, seed, names, _switches(replan_en_route, service))
    with new_progress(screen) as progress, ExitStack() as life:
        through = (
            partial(drives_through, life.enter_context(running(progress)))
            if service
            else partial(drives_of, margin_percent=margin)
        )
        rows["now"] = {
            name: list(_shown(progress, name, drives, through(WORLDS[name], seed, drives, replan_en_route)))
            for name in names
        }
    if as_json:
        print(json.dumps({name: [asdict(one) for one in outcomes] for name, outcomes in rows["now"].items()}))
        return
    lines = [
        (f"{WORLDS[name].title}{f', {when}' if len(rows) > 1 else ''}", outcomes[name])
        for name in names
        for when, outcomes in rows.items()
    ]
    if markdown:
        print("\n".join(line_of(*line) for line in lines))
    else:
        Console(width=max(Console().width, TABLE_WIDTH)).print(table_of(lines))
    if failures:
        _print_failures(rows["now"])


def _shown(progress: Progress, name: str, drives: int, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    yield from progress.track(outcomes, total=drives, description=WORLDS[name].title)


def _switches(replan_en_route: bool, service: bool) -> list[str]:
    switches = {"--replan-en-route": replan_en_route, "--service": service}
    return [name for name, is_on in switches.items() if is_on]


def _elsewhere(
    checkout: Path, drives: int, seed: int, names: list[str], switches: list[str]
) -> dict[str, list[Outcome]]:
    """Drive the same trips under the rules of another checkout, in its own interpreter."""
    worlds = [f"--world={name}" for name in names]
    there = subprocess.run(
        [
            *(checkout.resolve() / ".venv/bin/python", "-c", ELSEWHERE, Path(__file__).parent),
            *("--json", f"--drives={drives}", f"--seed={seed}", *worlds, *switches),
        ],
        check=True,
        stdout=subprocess.PIPE,
        cwd=checkout,
    )
    return outcomes_of(json.loads(there.stdout))


def _print_failures(worlds: dict[str, list[Outcome]]) -> None:
    for name, outcomes in worlds.items():
        for one in outcomes:
            if one.lowest_percent < LOW_PERCENT:
                dry = f", dry at mile {one.dry_mile:.0f}" if one.dry_mile is not None else ""
                print(f"{name} {one.seed}: {one.miles:.0f} mi, lowest {one.lowest_percent:.1f} %{dry}")
                print("".join(f"    {note}\n" for note in one.notes), end="")


def run() -> None:
    typer.run(main)


if __name__ == "__main__":
    run()
