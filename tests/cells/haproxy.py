"""A real HAProxy with the configuration that ships."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.ports import own_port

FOLDER = Path(__file__).parents[2] / "deploy" / "cells"
PROGRAM = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Proxy(NamedTuple):
    url: str
    map_file: Path
    control: Path


@contextmanager
def running_haproxy(folder: Path, first: str, second: str) -> Iterator[Proxy]:
    """A HAProxy before two cells, each `host:port`."""
    assert PROGRAM is not None
    map_file, control, port = folder / "cells.map", folder / "haproxy.sock", own_port()
    shutil.copy(FOLDER / "cells.map", map_file)
    settings = {
        "CELLS_MAP": str(map_file),
        "CELLS_BIND": f"127.0.0.1:{port}",
        "CELLS_SOCKET": str(control),
        "CELL_1": first,
        "CELL_2": second,
    }
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen(
            [PROGRAM, "-db", "-f", str(FOLDER / "haproxy.cfg")],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + 180
            while not control.exists():
                ended = process.poll() is not None or time.monotonic() > deadline
                assert not ended, (folder / "haproxy.log").read_text()
                time.sleep(0.02)
            yield Proxy(f"http://127.0.0.1:{port}", map_file, control)
        finally:
            process.kill()
            process.wait()
