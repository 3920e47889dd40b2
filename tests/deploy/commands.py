"""A command of `fuelroute` and its outcome, for tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NO_COMPANY = "cmp_" + "0" * 32


@dataclass(frozen=True)
class Result:
    """The outcome of a command."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.status in (0, 2), self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line that a failed command says."""
        assert self.status == 1, f"status {self.status}: {self.out}{self.err}"
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("fuelroute: ")
        return line


Cli = Callable[..., Result]
