"""Runs the cases of a part in blocks, each with a seed of its own, and keeps what it finds."""

import shlex
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, Verbosity, given
from hypothesis import seed as seeded
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

BLOCK = 500
"""The number of cases that one seed draws. A finding is repeated with the seed of its block."""
MOST_FINDINGS = 10
"""A part ends after so many: the rest would be more of the same."""
HANG_SECONDS = 120.0
"""An answer that takes longer counts as none."""

_MOST_SHOWN = 20_000
"""Characters of a case. The seed repeats the whole."""

SETTINGS = hypothesis_settings(
    database=None,
    deadline=None,
    derandomize=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


class Fault(Exception):
    """A case went wrong. The text says how."""


class Finding(NamedTuple):
    """A case that went wrong, as small as it could be made, and all that repeats it."""

    part: str
    seed: int
    cases: int
    case: str
    fault: str

    def __str__(self) -> str:
        options = ("--only", self.part, "--seed", str(self.seed), "--cases", str(self.cases))
        again = shlex.join(("python", "-m", "tests.fuzz", *options))
        return f"{self.part}: {self.fault}\n  case: {self.case}\n  again: {again}"


class Part(ABC):
    """One part of the fuzz: its cases, and the check of one."""

    name: str

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The cases by what they came to, for the report."""
        self.failing = ""
        """The case that went wrong last."""

    @abstractmethod
    def cases(self) -> st.SearchStrategy[Any]: ...

    @abstractmethod
    def check(self, case: Any) -> None:
        """Check one case. Raises Fault."""

    def tidy_up(self) -> None:
        """Make good what a block of cases may have left behind."""
        return

    def search(self, seed: int, cases: int, advance: Callable[[], object]) -> None:
        """Check as many cases. Raises the Fault of the smallest case that went wrong."""

        def check(case: Any) -> None:
            advance()
            try:
                self.check(case)
            except Fault:
                self.failing = repr(case)[:_MOST_SHOWN]
                raise

        seeded(seed)(hypothesis_settings(SETTINGS, max_examples=cases)(given(self.cases())(check)))()


class Outcome(NamedTuple):
    """The end of a part. `cases` are those that were really checked."""

    part: str
    cases: int
    seconds: float
    counts: Counter[str]
    findings: list[Finding]


def run_part(
    part: Part,
    *,
    seed: int,
    cases: int,
    advance: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
    tell: Callable[[Finding], object] = lambda _: None,
) -> Outcome:
    """Check as many cases; each block of them has the seed after that of the block before it. `after` each block raises
    Fault when something went wrong beside the answers, such as a job of a worker. `tell` gets each finding at once."""
    findings: list[Finding] = []
    done, checked, began = 0, 0, time.monotonic()

    def count() -> None:
        nonlocal checked
        checked += 1
        advance()

    def found(block_seed: int, size: int, fault: str) -> None:
        findings.append(Finding(part.name, block_seed, size, part.failing, fault))
        tell(findings[-1])

    for number in range(-(-cases // BLOCK)):
        size, block_seed = min(BLOCK, cases - done), seed + number
        done += size
        try:
            part.search(block_seed, size, count)
            part.failing = "(no single one)"
            part.tidy_up()
            after()
        except Fault as fault:
            found(block_seed, size, str(fault))
        except KeyboardInterrupt:
            part.counts["stopped by hand"] += 1
            break
        except Flaky as flaky:
            found(block_seed, size, f"not every time: {flaky}")
        if len(findings) >= MOST_FINDINGS:
            break
    return Outcome(part.name, checked, time.monotonic() - began, part.counts, findings)
