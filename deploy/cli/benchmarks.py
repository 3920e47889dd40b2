"""The benchmarks. They belong to a checkout, and are no part of the installed package, which imports no tests."""

import os
import sys
from pathlib import Path

import typer

from deploy.cli.failures import CommandFailed

app = typer.Typer()

CHECKOUT = Path(__file__).parents[2]


@app.command(
    add_help_option=False,  # the program has its own options, --help among them
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)
def bench(context: typer.Context) -> None:
    """Measures the speed of the service on this machine and compares it with its goals. Needs a checkout."""
    if not (CHECKOUT / "tests" / "benchmarks" / "__main__.py").is_file():
        raise CommandFailed("the benchmarks are not installed with the package: run this from a checkout")
    program = [
        sys.executable,
        "-P",
        "-m",
        "tests.benchmarks",
    ]  # -P: not the `tests` of the folder where somebody stands
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    os.execve(sys.executable, [*program, *context.args], {**os.environ, "PYTHONPATH": path})  # noqa: S606 (no shell)
