"""Valhalla's tiles of an extract, built once for each extract and kept.

`DATA/roads/` has a folder `tiles-...` for one extract. It gets its name when it is complete, so that a build that was
killed leaves nothing that a server would take. The file `extract.json` in it tells what it was built from."""

import contextlib
import fcntl
import json
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.embedded.folders import make_closed
from deploy.processes import Child, Spec, StopRequested, open_private
from deploy.road_server.extracts import Extract, UnusableExtract
from deploy.road_server.sizing import Needs, needs_of
from deploy.road_server.valhalla_wheel import ValhallaWheel
from domain.errors import FuelrouteError

ORIGIN = "extract.json"
"""The file in a folder of tiles that names its extract."""

STAGES = (
    ("Parsing ways", 0.00),
    ("Parsing relations", 0.27),
    ("Parsing nodes", 0.31),
    ("Creating graph edges", 0.54),
    (r"Building \d+ tiles", 0.57),
    ("Enhancing local graph", 0.69),
    ("HierarchyBuilder", 0.85),
    ("Creating shortcuts on level 1", 0.89),
    ("Creating shortcuts on level 0", 0.93),
    ("Adding complex turn restrictions", 0.94),
    ("Validating", 0.96),
)
"""The lines of the builder's log that begin its stages, and the share of the time that is over by then."""

LEAST_FREE_BYTES = 1_000_000
"""A build ends where the disk has less than this: the builder takes a tile that was cut by a full disk for a whole one,
unless it reads it again."""

_LOOK_SECONDS = 0.1
_LAST_LINES_BYTES = 64 * 1024

Progress = Callable[[float], object]
"""Is told the share of a build that is done."""


class BuildFailed(FuelrouteError):
    """The tiles could not be built; the text says why."""


class RoadsFolder:
    """The folder of the tiles. One process at a time builds and serves in it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Take the folder for this process. Raises BuildFailed if another has it."""
        make_closed(self.path.parent, self.path)
        with open(self.path / "lock", "a", opener=open_private) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BuildFailed(f"another `fuelroute roads serve` works in {self.path}: stop it first") from None
            for left in self.path.glob("building-*"):  # of a build that was killed
                shutil.rmtree(left, ignore_errors=True)
            yield

    def tiles_of(self, extract: Extract, wheel: ValhallaWheel) -> Path | None:
        """The tiles that were built from this extract by this version of Valhalla; None if there are none."""
        for tiles in sorted(self.path.glob("tiles-*")):
            try:
                origin = json.loads((tiles / ORIGIN).read_text())
            except (OSError, ValueError):  # as after a power failure
                continue
            if origin["valhalla"] != wheel.version or origin["size"] != extract.size:
                continue
            if origin["modified_ns"] == extract.modified_ns or origin["sha256"] == extract.sha256():
                return tiles
        return None

    def build(
        self,
        extract: Extract,
        wheel: ValhallaWheel,
        *,
        threads: int,
        progress: Progress = lambda _: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Path:
        """Build the tiles of an extract, and remove those of others. Raises BuildFailed, UnusableExtract if the file
        changes meanwhile, and StopRequested if a stop is asked for."""
        require_disk(needs_of(extract.size), self.path)
        sha256 = extract.sha256()
        building = self.path / f"building-{sha256[:12]}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700)
        try:
            _run_builder(extract, wheel, building, self.path / "build.log", threads, progress, stopping)
            if not extract.is_unchanged():
                raise UnusableExtract(extract.path, "it was changed while its roads were built: try again")
            origin = {"size": extract.size, "modified_ns": extract.modified_ns, "sha256": sha256}
            (building / ORIGIN).write_text(json.dumps({**origin, "file": str(extract.path), "valhalla": wheel.version}))
            return self._take(building, f"tiles-{sha256[:12]}")
        finally:
            shutil.rmtree(building, ignore_errors=True)

    def _take(self, building: Path, name: str) -> Path:
        """Give the complete tiles their name; the tiles that they replace go. These lose their name first: a kill may
        leave some of their files, which no server must take."""
        replaced = [old.rename(self.path / f"building-{old.name}") for old in self.path.glob("tiles-*")]
        tiles = self.path / name
        building.rename(tiles)
        for old in replaced:
            shutil.rmtree(old, ignore_errors=True)
        return tiles


def require_disk(needs: Needs, folder: Path) -> None:
    """Check the disk before a build. Raises BuildFailed if the disk of the folder has no room for the build."""
    free = shutil.disk_usage(folder).free
    if free < needs.disk_bytes:
        raise BuildFailed(
            f"the build needs about {needs.disk_bytes / 1e9:,.1f} GB of disk and {folder} has {free / 1e9:,.1f} GB"
            " free: make room, or choose another folder with --data"
        )


def _run_builder(
    extract: Extract,
    wheel: ValhallaWheel,
    building: Path,
    log: Path,
    threads: int,
    progress: Progress,
    stopping: Callable[[], bool],
) -> None:
    config = building / "build.json"
    wheel.write_build_config(config, building, threads=threads)
    log.unlink(missing_ok=True)
    argv = [str(wheel.builder), "-c", str(config), str(extract.path)]
    child = Child(Spec("valhalla_build_tiles", argv, log, folder=building))  # it leaves notes where it runs
    try:
        done = 0.0
        while child.died() is None:
            if stopping():
                raise StopRequested
            if shutil.disk_usage(building).free < LEAST_FREE_BYTES:
                raise BuildFailed(f"the roads of {extract.path} cannot be built: the disk is full")
            done = max(done, _share_done(log))
            progress(done)
            time.sleep(_LOOK_SECONDS)
    finally:
        child.kill_group()
    if child.process.returncode != 0 and "Finished with 0 routable ways" not in log.read_text(errors="replace"):
        raise BuildFailed(f"the roads of {extract.path} cannot be built: {_reason(child)}; all of it is in {log}")
    if not any(building.rglob("*.gph")):
        raise BuildFailed(f"{extract.path} has no roads")
    progress(1.0)


def _share_done(log: Path) -> float:
    """The share that the last lines of the log tell."""
    with log.open("rb") as lines:
        lines.seek(max(0, log.stat().st_size - _LAST_LINES_BYTES))
        text = lines.read().decode(errors="replace")
    return max((share for line, share in STAGES if re.search(line, text)), default=0.0)


def _reason(child: Child) -> str:
    """The reason of a builder's death. It maps its files into memory, where a full disk shows as SIGBUS."""
    if "unsorted input data" in (last_words := child.last_words()):
        return "its contents are not in the order of their ids; `osmium sort FILE -o SORTED.osm.pbf` puts them in order"
    return {
        -signal.SIGKILL: "it was killed, most likely for want of memory",
        -signal.SIGBUS: "the disk is full",
    }.get(child.process.returncode, last_words)
