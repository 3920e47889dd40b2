"""A short portion of each part of `python -m tests.fuzz`, always the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.api import Api
from tests.fuzz.clients import Keys
from tests.fuzz.csv_files import CsvFiles
from tests.fuzz.engine import Part, run_part
from tests.fuzz.feed import Feed
from tests.fuzz.forms import Forms
from tests.fuzz.stack import Stack
from tests.ingress.console.conftest import World, console_url, world
from tests.service import Service

__all__ = ["console_url", "world"]  # fixtures


@pytest.fixture
def keys(service: Service) -> Iterator[Keys]:
    with Keys(service) as keys:
        yield keys


def found(part: Part, cases: int) -> list[str]:
    return [str(finding) for finding in run_part(part, seed=7, cases=cases).findings]


def test_requests_from_the_api_s_document_are_answered_as_it_says(keys: Keys) -> None:
    assert found(Api(keys), 40) == []


def test_strange_positions_are_rejected_and_good_ones_taken(keys: Keys) -> None:
    assert found(Feed(keys), 50) == []


def test_strange_rows_of_files_are_refused_and_good_ones_imported(world: World) -> None:
    assert found(CsvFiles(world), 60) == []


def test_forms_of_the_console_take_anything(service: Service, world: World, tmp_path: Path) -> None:
    assert found(Forms(Stack(service, world, tmp_path), most_pages=12), 50) == []
