"""A database of its own for the tests of the doctor, who looks at everything there is; and checks of one moment."""

import math
from collections.abc import Callable, Iterator
from datetime import datetime

import psycopg
import pytest

from domain.database.connections import Connection, Database
from domain.operations.doctor.checks import Examined, Finding
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from tests.conftest import make_database

Find = Callable[[Examined], Iterator[Finding]]
Examine = Callable[..., list[Finding]]
"""Makes a check in the test's transaction."""


def texts(found: list[Finding]) -> list[str]:
    return [one.what for one in found]


@pytest.fixture(scope="module")
def own_settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"database_url": make_database("doctor")})


@pytest.fixture(scope="module")
def database(own_settings: Settings) -> Iterator[Database]:
    with Database.of(own_settings) as opened:
        yield opened


@pytest.fixture
def examine(connection: Connection, own_settings: Settings, jobs: JobQueue, now: datetime) -> Examine:
    def run(find: Find, **more: object) -> list[Finding]:
        connection.execute("SELECT pg_stat_clear_snapshot()")  # else a transaction sees its first look at sessions
        settings = own_settings.model_copy(update=more)
        return list(find(Examined(connection, jobs.client, settings, now, math.inf, most_examples=1000)))

    return run


@pytest.fixture
def administrator(own_settings: Settings) -> Iterator[psycopg.Connection]:
    """The superuser in the same database: some faults only a superuser can make."""
    url = own_settings.require_database_url().replace("//fuelroute@/", "//postgres@/")
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened
