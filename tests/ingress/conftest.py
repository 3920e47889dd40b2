"""Fixtures for modules with an ingress of their own: each overrides `service`, and `client` is a client of it."""

from pathlib import Path

import pytest

from tests.metrics import Metrics
from tests.ports import own_port


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def metrics() -> Metrics:
    return Metrics(own_port())
