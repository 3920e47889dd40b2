"""Fixtures that run commands."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.cli import main
from deploy.cli.output import screen
from domain.database.connections import Database
from domain.settings import Settings, get_settings
from tests.deploy.commands import Cli, Result
from tests.factories import Fleet, make_fleet
from tests.plain_logs import log_plainly


@pytest.fixture
def cli(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Cli]:
    """Runs `fuelroute` with these arguments, as its entry point does."""
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", settings.require_database_url())
    monkeypatch.setenv("FUELROUTE_REDIS_URL", settings.require_redis_url())
    monkeypatch.setenv("FUELROUTE_DATA", str(tmp_path))
    monkeypatch.setenv("PGAPPNAME", "tests")  # processes name themselves there; the name goes with the test
    monkeypatch.setattr(screen, "width", 250)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # commands configure logging for a whole process
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    logger, handlers, level = logging.getLogger(), logging.getLogger().handlers, logging.getLogger().level

    def run(*arguments: str) -> Result:
        get_settings.cache_clear()
        monkeypatch.setattr(sys, "argv", ["fuelroute", *arguments])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 0
        finally:
            get_settings.cache_clear()
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    yield run
    get_settings.cache_clear()
    logger.handlers = handlers
    logger.setLevel(level)
    log_plainly()


@pytest.fixture
def fleet(database: Database) -> Fleet:
    """A company that commands can see."""
    with database.transaction() as connection:
        return make_fleet(connection)


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: str) -> str:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([*lines, ""]))
        return str(path)

    return write
