"""Files of fuel cards that a person brings to the console. Their fills are stored in batches, each a transaction with
the figures of the record in `csv_imports`. So the record tells exactly what is stored, even if the process dies."""

from pathlib import Path
from typing import NamedTuple

from domain.files.profiles import FileProfile
from domain.fills.card_files import Volume
from domain.lifecycle import Environment
from domain.operations.csv_imports import FillKind

FILL_KINDS: dict[Environment, FillKind] = {Environment.LIVE: "live fills", Environment.SANDBOX: "sandbox fills"}


class FillUpload(NamedTuple):
    """The way to read a file that has arrived."""

    path: Path
    profile: FileProfile
    volume: Volume
    environment: Environment
