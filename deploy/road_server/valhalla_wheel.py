"""Valhalla's programs from the wheel `pyvalhalla`, and their configuration."""

import importlib
import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from domain.errors import FuelrouteError

CACHE_BYTES = 512 * 1024 * 1024
"""Most bytes of tiles that one thread of the server keeps in memory."""

DRAIN_SECONDS = 1
"""Time for a stopping server to end its answers, which take milliseconds."""


class NoValhalla(FuelrouteError):
    def __init__(self) -> None:
        super().__init__(
            "Valhalla is not installed: install `fuelroute[osm]` (in a checkout: deploy/install osm), or set "
            "FUELROUTE_VALHALLA_URL to a server of your own"
        )


class ValhallaWheel:
    """The installed wheel. Raises NoValhalla where there is none."""

    def __init__(self) -> None:
        try:
            self._module = importlib.import_module("valhalla")
            programs = Path(self._module.PYVALHALLA_DIR, "bin")
        except (ImportError, AttributeError):
            raise NoValhalla from None
        self.builder, self.server = programs / "valhalla_build_tiles", programs / "valhalla_service"
        if not self.builder.exists():
            raise NoValhalla

    @property
    def version(self) -> str:
        """The version of the tiles that it writes and reads."""
        for name in ("pyvalhalla", "pyvalhalla-weekly"):
            try:
                return f"{name} {version(name)}"
            except PackageNotFoundError:
                continue
        raise NoValhalla

    def write_build_config(self, file: Path, tiles: Path, *, threads: int) -> None:
        config = self._config(tiles)
        config["mjolnir"]["concurrency"] = threads
        file.write_text(json.dumps(config))

    def write_server_config(self, file: Path, tiles: Path, sockets: Path, address: str) -> None:
        """`sockets` is a folder of the server's own, for its inner connections."""
        config = self._config(tiles)
        config["mjolnir"]["max_cache_size"] = CACHE_BYTES
        config["httpd"]["service"] |= {
            "listen": f"tcp://{address}",
            "loopback": f"ipc://{sockets}/loopback",
            "interrupt": f"ipc://{sockets}/interrupt",
            "drain_seconds": DRAIN_SECONDS,
        }
        for part in ("loki", "thor", "odin"):
            config[part]["service"]["proxy"] = f"ipc://{sockets}/{part}"
        file.write_text(json.dumps(config))

    def _config(self, tiles: Path) -> Any:
        config = self._module.get_config(tile_extract="", tile_dir=tiles)
        for part in ("mjolnir", "loki", "thor", "odin", "skadi", "meili"):
            config.get(part, {})["logging"] = {"type": "std_out", "color": False}
        return config
