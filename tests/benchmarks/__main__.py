"""The program that `fuelroute bench` runs: its options, and what it refuses."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.failures import CommandFailed, run
from deploy.cli.output import screen
from domain.settings import get_settings
from domain.telemetry.logs import configure_logging
from tests.benchmarks.run import ALL, LONG_WORKS, known_works, run_benchmarks

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bench(
    works: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORK",
            help=f"What to measure: {', '.join(known_works())}. All but {', '.join(LONG_WORKS)} unless named.",
        ),
    ] = None,
    file: Annotated[Path, typer.Option("--json", metavar="FILE", help="File for the figures.")] = Path(
        "fuelroute-bench.json"
    ),
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="Rounds of each measurement.")] = 3,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, metavar="S", help="Length of each measurement.")] = 3,
    routes: Annotated[
        int,
        typer.Option("--routes", min=1000, metavar="N", help="Routes in the table of reads, restore and doctor."),
    ] = 1_000_000,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, metavar="M", help="How long the soak runs.")] = 30,
    ingress: Annotated[
        list[int] | None,
        typer.Option(
            "--ingress",
            min=1,
            metavar="N",
            help="Number of ingress processes; 1 and 2 unless set. Give it once for each number.",
        ),
    ] = None,
    fills: Annotated[
        int, typer.Option("--fills", min=1, metavar="N", help="Purchases in the fuel card's file of files.")
    ] = 20_000,
    prices: Annotated[
        int, typer.Option("--prices", min=1, metavar="N", help="Rows in the price files of files.")
    ] = 10_000,
) -> None:
    """Measures the speed of the service on this machine and compares it with its goals.

    It starts a service of its own, and measures a reference beside it.
    """
    chosen = works or [ALL]
    unknown = sorted(set(chosen) - set(known_works()))
    if unknown:
        raise CommandFailed(f"no such work: {', '.join(unknown)}; choose from {', '.join(known_works())}")
    configure_logging(get_settings().model_copy(update={"log_level": "warning"}), "bench")
    run_benchmarks(
        chosen,
        file,
        screen,
        rounds=rounds,
        seconds=seconds,
        routes=routes,
        minutes=minutes,
        ingress=ingress or [1, 2],
        fills=fills,
        prices=prices,
    )


if __name__ == "__main__":
    run(lambda: app(prog_name="fuelroute bench"))
