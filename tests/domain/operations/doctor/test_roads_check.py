"""Roads that the settings name and that no plan takes are told."""

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from domain.database.connections import Connection
from domain.operations.doctor.roads import check_roads
from domain.planning.explanation import pack_explanation
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.operations.doctor.conftest import Examine
from tests.factories import Fleet
from tests.ports import own_port


def told_of_silence(examine: Examine) -> str:
    (found,) = examine(check_roads, valhalla_url=f"http://127.0.0.1:{own_port()}")
    assert not found.is_problem
    assert "valhalla cannot be reached at http://127.0.0.1:" in found.what
    return found.what.rpartition("; ")[2]


def test_a_silent_valhalla_is_told(
    examine: Examine, connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    assert examine(check_roads, data=tmp_path) == []
    route_id = imported(connection, fleet.live, now=now)
    planned_by_hand(connection, route_id, now=now)
    assert told_of_silence(examine) == "no recent plan took its roads"
    took_roads_of_valhalla(connection, route_id)
    assert told_of_silence(examine).startswith("the last plan on its roads is of ")


def took_roads_of_valhalla(connection: Connection, route_id: UUID) -> None:
    explanation: Any = {"sources": {"roads": {"source": "valhalla"}}}
    update = "UPDATE plans SET explanation = %s WHERE route_id = %s"
    connection.execute(update, (pack_explanation(explanation), route_id))


def test_a_file_of_roads_that_cannot_be_read_is_told(examine: Examine, tmp_path: Path) -> None:
    (tmp_path / "roads.npz").write_bytes(b"<html>")
    (found,) = examine(check_roads, data=tmp_path, roads_file=tmp_path / "roads.npz")
    assert not found.is_problem
    assert "holds no roads of `fuelroute roads build`" in found.what
