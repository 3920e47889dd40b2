"""A purchase that the card takes back does not count, in any order of the rows and in any files; nothing is credited
below zero."""

from pathlib import Path

import pytest

from domain.database.connections import Connection
from tests.domain.fills.cards import comdata, fills, import_fills, write_comdata
from tests.factories import Fleet


@pytest.mark.parametrize("files", [(("N", "Y"),), (("N",), ("Y",)), (("Y",), ("N",)), (("Y", "N"),)])
def test_a_void_of_comdata_takes_the_purchase_back(
    connection: Connection, fleet: Fleet, tmp_path: Path, files: tuple[tuple[str, ...], ...]
) -> None:
    for flags in files * 2:
        path = write_comdata(tmp_path / "comdata.csv", *(comdata(cancel=flag) for flag in flags))
        assert import_fills(connection, fleet.live, path, profile="comdata")[1] == {}

    one, other = fills(connection, fleet.live)
    assert (one.counter_id, other.counter_id) == (other.id, one.id)
    assert (one.review, other.review) == ([], [])


def test_a_void_alone_waits_for_a_person(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    path = write_comdata(tmp_path / "comdata.csv", comdata(cancel="Y"))
    assert import_fills(connection, fleet.live, path, profile="comdata") == ((1, 0, 0), {})
    (fill,) = fills(connection, fleet.live)
    assert (fill.gallons, fill.review) == (-140.14, ["reversal"])


def test_a_void_without_figures_and_an_unknown_flag_are_told(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    lines = [comdata(cancel="Y", gallons="0.00", cost="$0.00"), comdata(cancel="?")]
    _, refused = import_fills(
        connection, fleet.live, write_comdata(tmp_path / "comdata.csv", *lines), profile="comdata"
    )
    assert "cancels transaction 17836" in refused[2]
    assert "Y and N are known" in refused[3]
