"""Fixtures of the contract tests: more clients of the same company, of another one, and one without a key."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.service import Client, Service


class Clients:
    """Makes clients that are closed after the test."""

    def __init__(self, service: Service, life: ExitStack) -> None:
        self._service = service
        self._life = life

    def tenant(self, environment: Environment = Environment.LIVE, **policy: Any) -> Client:
        """A client of a fresh company."""
        return self._life.enter_context(self._service.new_tenant(environment, **policy))

    def colleague(self, of: Client, *scopes: str, environment: Environment = Environment.LIVE) -> Client:
        """Another key of the same company: every scope unless some are named."""
        return self._life.enter_context(self._service.client(of.fleet, environment, *scopes))


@pytest.fixture
def clients(service: Service) -> Iterator[Clients]:
    with ExitStack() as life:
        yield Clients(service, life)
