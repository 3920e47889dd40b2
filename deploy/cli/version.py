"""`fuelroute --version`, which needs no library."""

import sys


def print_version() -> None:
    from importlib import metadata  # which no other command needs

    sys.stdout.write(f"fuelroute {metadata.version('fuelroute')}\n")
