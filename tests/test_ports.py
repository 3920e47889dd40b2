"""Tests that run at the same time get different ports."""

import subprocess
import sys

import pytest

from tests import ports
from tests.ports import own_port

ASK = "import sys; from tests import ports; ports._PORTS = range(*map(int, sys.argv[1:])); print(ports.own_port())"


@pytest.mark.slow
def test_no_process_gets_the_port_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first = own_port(3)
    few = range(first, first + 4)
    monkeypatch.setattr(ports, "_PORTS", few)
    command = [sys.executable, "-c", ASK, str(few.start), str(few.stop)]
    asked = subprocess.run(command, capture_output=True, text=True)
    assert asked.stdout == f"{few[-1]}\n" or "no 1 ports in a row are free" in asked.stderr


def test_no_test_gets_a_port_twice() -> None:
    first, second, third = own_port(3), own_port(), own_port(2)
    assert len({*range(first, first + 3), second, third, third + 1}) == 6
