"""Failures of a server of roads before it is ready: told, or waited for. The builder is a script."""

import errno
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.cli.output import screen
from deploy.processes import StopRequested
from deploy.road_server import server as server_module
from deploy.road_server.server import RoadServer
from deploy.road_server.tiles import RoadsFolder
from domain.settings import Settings
from ingress.http.serving import PortTaken, free_port, listen
from tests.deploy.road_server.test_extracts import WHOLE
from tests.deploy.road_server.test_tiles import Wheel


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RoadServer]:
    """A server. Somebody takes its port while its roads are built."""
    (tmp_path / "map.osm.pbf").write_bytes(WHOLE)
    settings = Settings(data=tmp_path / "data", roads_host="127.0.0.1", roads_port=free_port("127.0.0.1", 0))
    with ExitStack() as opened:

        class TakenDuringTheBuild(Wheel):
            server = Path("/bin/false")

            def write_build_config(self, file: Path, tiles: Path, *, threads: int) -> None:
                super().write_build_config(file, tiles, threads=threads)
                opened.enter_context(listen(settings.roads_host, settings.roads_port))

        monkeypatch.setattr(server_module, "ValhallaWheel", lambda: TakenDuringTheBuild(tmp_path))
        monkeypatch.setattr(server_module, "stop_on_signals", lambda _: None)
        yield RoadServer(settings, tmp_path / "map.osm.pbf", threads=1, screen=screen)


def test_a_port_that_was_taken_during_the_build_is_named(server: RoadServer) -> None:
    with pytest.raises(PortTaken, match="choose another port with --port or FUELROUTE_ROADS_PORT"):
        server.run()


def test_a_full_disk_is_waited_for(
    server: RoadServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", "extract.json")

    def waits(_: RoadServer, seconds: float) -> None:
        assert seconds == 60 * 60
        raise StopRequested

    monkeypatch.setattr(RoadsFolder, "build", full)
    monkeypatch.setattr(RoadServer, "_wait", waits)
    assert server.run(wait_minutes=60) == 0
    assert "No space left on device: 'extract.json'; tried again in 60 min" in capsys.readouterr().out
