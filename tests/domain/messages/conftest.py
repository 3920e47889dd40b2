"""Fixtures of the tests of messages: a gateway that answers, and a load with a message to send."""

from datetime import datetime

import pytest

from domain.database.connections import Database
from domain.settings import Settings
from tests.domain.messages.loads import Load


@pytest.fixture
def load(database: Database, settings: Settings, now: datetime) -> Load:
    return Load.planned(database, settings, now, "json://gateway.invalid/")
