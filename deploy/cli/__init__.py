"""The command line `fuelroute`: one module for each group of commands. The work is done in `domain`."""

import os
import signal
import sys

from deploy.cli.version import print_version
from ingress.http.garbage import collect_rarely


def main() -> None:
    """The entry point."""
    _open_missing_streams()
    if sys.argv[1:] == ["--version"]:  # needs none of the libraries, which take ten times as long to load
        print_version()
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller ignores Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends the program without a word until the command begins
    if sys.argv[1:] == ["health", "--quiet"]:
        from deploy.process_health import is_surely_well

        if is_surely_well():
            return
    collect_rarely()
    # pydantic would read the metadata of all installed packages in search of plugins: a tenth of a command's start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from deploy.cli.commands import app  # loaded after the line above, for all of it stays
    from deploy.cli.failures import run

    run(app)


def _open_missing_streams() -> None:
    """Opens the standard streams that the caller closed, such as by `>&-`, on the null device. Otherwise the next
    socket or file would get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (open as long as the program runs)
