"""The coverage of an extract is told where a database knows the fleet, and stops no server."""

from pathlib import Path

from deploy.road_server.coverage import tell_coverage
from domain.settings import Settings
from tests.conftest import make_database


def test_a_database_that_cannot_be_read_stops_no_server(settings: Settings, tmp_path: Path) -> None:
    said = list[str]()
    bare = settings.model_copy(update={"database_url": make_database("no_schema", template="template1")})
    tell_coverage(bare, tmp_path, said.append)
    assert said == [
        'the database cannot be read (relation "stations" does not exist):'
        " whether the roads reach the fleet's stops and stations was not checked"
    ]
