"""Runs Valhalla over the tiles of an extract: builds them first where they are missing, and restarts a server that dies
or hangs."""

import time
from collections.abc import Callable
from pathlib import Path

from deploy.cli.output import counting
from deploy.embedded.folders import make_private, socket_folder
from deploy.embedded.servers import server_environment
from deploy.processes import Child, Spec, StopRequested
from deploy.road_server.coverage import tell_coverage
from deploy.road_server.extracts import checked_extract
from deploy.road_server.sizing import needs_of
from deploy.road_server.tiles import RoadsFolder
from deploy.road_server.valhalla_wheel import ValhallaWheel
from deploy.stack import reporting_supervisor, stop_on_signals
from deploy.terminal import Terminal
from domain.addresses import reachable
from domain.errors import FuelrouteError
from domain.roads.valhalla import reason_of_silence
from domain.settings import Settings
from ingress.http.serving import free_port

LOOK_SECONDS = 10.0
ANSWER_SECONDS = 5.0
MOST_SILENT_LOOKS = 3
"""A server that has not answered this often in a row hangs, and is killed; then it starts again."""

START_SECONDS = 120.0
"""Time for a server to read its tiles."""
_PERCENT = 100
_WAIT_SECONDS = 0.5


class RoadServer:
    """One server of roads, from its extract to its end."""

    def __init__(self, settings: Settings, extract: Path, *, threads: int, screen: Terminal) -> None:
        self._settings = settings
        self._path = extract
        self._threads = threads
        self._screen = screen
        self._supervisor = reporting_supervisor(screen)

    def run(self, *, wait_minutes: float = 0) -> int:
        """Serve until Ctrl-C or SIGTERM. Returns the exit status. After a failure it waits for those minutes and tries
        again; with 0 the failure is raised: NoValhalla, UnusableExtract, BuildFailed, PortTaken, StartFailed or
        OSError."""
        stop_on_signals(self._supervisor)
        try:
            while not self._supervisor.stopping:
                try:
                    self._serve()
                except (FuelrouteError, OSError) as failure:
                    if not wait_minutes:
                        raise
                    self._supervisor.stop()
                    self._say(f"error: {failure}; tried again in {wait_minutes:g} min")
                    self._wait(wait_minutes * 60)
        except StopRequested:
            pass
        finally:
            self._supervisor.stop()
        return 0

    def _serve(self) -> None:
        wheel, folder = ValhallaWheel(), RoadsFolder(self._settings.data / "roads")
        port = self._free_port(self._settings.roads_port)
        with folder.locked():
            tiles = self._tiles(wheel, folder)
            tell_coverage(self._settings, tiles, self._say)
            port = self._free_port(port)  # whoever took it during the build would answer for our server
            sockets = socket_folder(tiles)
            make_private(sockets, sockets.parent.stat().st_uid)
            address = f"{self._settings.roads_host}:{port}"
            config = folder.path / "server.json"
            wheel.write_server_config(config, tiles, sockets, address)
            url = f"http://{reachable(self._settings.roads_host)}:{port}"
            health = ServerHealth(url, self._say)
            argv = [str(wheel.server), str(config), str(self._threads)]
            spec = Spec(
                "valhalla",
                argv,
                folder.path / "server.log",
                folder=folder.path,
                env=server_environment(),
                inherits=False,
                is_ready=health.answers,
            )
            self._supervisor.start([spec], seconds=START_SECONDS)
            self._say(f"ready {url}")
            self._supervisor.watch(lambda: health.look(self._supervisor.children[-1]))

    def _free_port(self, port: int) -> int:
        return free_port(self._settings.roads_host, port, "--port or FUELROUTE_ROADS_PORT")

    def _tiles(self, wheel: ValhallaWheel, folder: RoadsFolder) -> Path:
        extract = checked_extract(self._path)
        tiles = folder.tiles_of(extract, wheel)
        if tiles is not None:
            self._say(f"the roads of {extract.path} are built already")
            return tiles
        needs = needs_of(extract.size, self._threads)
        self._say(f"{extract.path} ({extract.size / 1e6:,.1f} MB): {needs.in_words()}")
        started = time.monotonic()
        with counting("building roads, percent", _PERCENT, quiet=False) as advance:
            tiles = folder.build(
                extract,
                wheel,
                threads=self._threads,
                progress=_in_percent(advance),
                stopping=lambda: self._supervisor.stopping,
            )
        self._say(f"built in {time.monotonic() - started:,.0f} s")
        return tiles

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._supervisor.stopping and time.monotonic() < end:
            time.sleep(_WAIT_SECONDS)

    def _say(self, sentence: str) -> None:
        self._screen.print(sentence, highlight=False, soft_wrap=True)


def _in_percent(advance: Callable[[int], object]) -> Callable[[float], None]:
    """Tells a bar of progress the whole percents that are new in a share."""
    told = 0

    def tell(share: float) -> None:
        nonlocal told
        advance(int(share * _PERCENT) - told)
        told = int(share * _PERCENT)

    return tell


class ServerHealth:
    """Looks after a running server: one that lives and is silent is killed: its supervisor starts it again."""

    def __init__(self, url: str, say: Callable[[str], None], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._say = say
        self._monotonic = monotonic
        self._next_look = monotonic() + LOOK_SECONDS
        self._silent_looks = 0

    def answers(self) -> bool:
        return reason_of_silence(self._url, ANSWER_SECONDS) is None

    def look(self, child: Child) -> None:
        """Ask a running server when it is time to; kill one that hangs."""
        if self._monotonic() < self._next_look or child.died() is not None:
            return
        self._silent_looks = 0 if self.answers() else self._silent_looks + 1
        self._next_look = self._monotonic() + LOOK_SECONDS
        if self._silent_looks == MOST_SILENT_LOOKS:
            self._say(f"valhalla did not answer {MOST_SILENT_LOOKS} times in a row: it is killed")
            child.kill_group()
            self._silent_looks = 0
