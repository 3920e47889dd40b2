"""A row that cannot be read spoils its route: none is made without one of its stops, or with one of another route."""

import csv
import io
from pathlib import Path
from zoneinfo import ZoneInfo

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.files import route_tables
from domain.files.csvfiles import UnreadableFile
from domain.files.route_files import open_route_file
from domain.files.route_rows import FileRoute

CHICAGO = ZoneInfo("America/Chicago")
HEADING = "externalId,unitNumber,driverName,scheduledStart,stop_name,stop_latitude,stop_longitude"
PLACES = {
    "Joliet": "41.4,-88.1",
    "Toledo": "41.6,-83.5",
    "Newark": "40.7,-74.1",
    "Gary": "41.6,-87.3",
    "Erie": "42.1,-80.0",
}


def stop(route: str, place: str, name: str = "") -> str:
    return f"{route},101,Ann Lee,2026-12-01 08:00,{name or place},{PLACES[place]}"


def further(place: str) -> str:
    return f",,,,{place},{PLACES[place]}"


def read(folder: Path, *rows: str, heading: str = HEADING, name: str = "loads.csv") -> list[FileRoute]:
    path = folder / name
    path.write_text("\n".join([heading, *rows]) + "\n")
    with open_route_file(path, {}, CHICAGO) as file:
        return list(file.routes)


def pushed(routes: list[FileRoute]) -> dict[str, list[str]]:
    """The stops of each route that would be pushed."""
    return {one.external_id: [stop.name for stop in one.route.stops] for one in routes if one.route is not None}


def faults(routes: list[FileRoute]) -> dict[int, str]:
    return {one.line: one.fault for one in routes if one.fault}


BAD = [
    stop("A", "Toledo", "Toledo, OH"),
    stop("A", "Toledo", '"Joe\'s" stop'),
    stop("A", "Toledo", '"Joe'),
    'A,"101,Ann Lee,2026-12-01 08:00,Toledo,41.6,-83.5',
    '"A,101,Ann Lee,2026-12-01 08:00,Toledo,41.6,-83.5',
    "A,101,Ann Lee,2026-12-01 08:00,Toledo,41.6",
    "A,101,Ann Lee,2026-12-01 08:00,Toledo,,41.6,-83.5",
    stop("A", "Toledo", "x" * 140_000),
    f",101,Ann Lee,2026-12-01 08:00,Toledo, OH,{PLACES['Toledo']}",
]


@pytest.mark.parametrize("bad", BAD)
def test_a_route_without_one_of_its_rows_is_refused_with_the_line_and_the_reason(tmp_path: Path, bad: str) -> None:
    routes = read(
        tmp_path,
        *(stop("Z", "Gary"), stop("Z", "Erie")),
        *(stop("A", "Joliet"), bad, stop("A", "Newark")),
        *(stop("B", "Gary"), stop("B", "Erie")),
    )

    assert pushed(routes) == {"Z": ["Gary", "Erie"], "B": ["Gary", "Erie"]}
    told = faults(routes)
    assert 4 in told
    assert "5" in told[4]


@pytest.mark.parametrize("bad", [*BAD[:5], *BAD[6:8]])
def test_a_first_row_that_is_refused_gives_its_stops_to_no_other_route(tmp_path: Path, bad: str) -> None:
    bad = bad.replace("A,", "B,", 1)
    routes = read(
        tmp_path,
        *(stop("A", "Joliet"), further("Newark")),
        *(bad, further("Toledo"), further("Erie")),
        *(stop("C", "Gary"), further("Erie")),
    )

    assert pushed(routes).get("A", ["Joliet", "Newark"]) == ["Joliet", "Newark"]
    assert "B" not in pushed(routes)
    assert set(faults(routes)) >= {4, 5}
    if not bad.startswith('"'):
        assert set(pushed(routes)) == {"A", "C"}


def test_rows_of_one_route_that_stand_apart_are_one_route(tmp_path: Path) -> None:
    routes = read(
        tmp_path,
        stop("A", "Joliet"),
        stop("B", "Gary"),
        stop("A", "Toledo"),
        stop("B", "Erie"),
        further("Newark"),
        stop("A", "Newark"),
    )

    assert pushed(routes) == {"A": ["Joliet", "Toledo", "Newark"], "B": ["Gary", "Erie", "Newark"]}


def test_a_refused_row_spoils_a_route_whose_other_rows_stand_apart(tmp_path: Path) -> None:
    routes = read(
        tmp_path,
        *(stop("A", "Joliet"), stop("B", "Gary"), stop("B", "Erie")),
        *(stop("C", "Gary"), stop("C", "Erie"), stop("A", "Toledo", "Toledo, OH"), stop("A", "Newark")),
    )

    assert set(pushed(routes)) == {"B", "C"}
    assert "Line 7" in faults(routes)[2]


def test_a_row_that_may_belong_to_any_route_refuses_a_file_whose_routes_stand_apart(tmp_path: Path) -> None:
    rows = [stop("A", "Joliet"), stop("B", "Gary"), '"A,101,x,,Toledo,41,-83', stop("B", "Erie"), stop("A", "Newark")]

    with pytest.raises(UnreadableFile, match=r"line 4 cannot be read .* may belong to any route"):
        read(tmp_path, *rows)


def test_an_id_that_lost_its_quotes_spoils_its_route(tmp_path: Path) -> None:
    def quoted(place: str) -> str:
        return stop('"A, 1"', place)

    routes = read(
        tmp_path, quoted("Joliet"), stop("A, 1", "Toledo"), quoted("Newark"), stop("B", "Gary"), further("Erie")
    )

    assert set(pushed(routes)) == {"B"}


def test_pieces_of_a_route_that_say_different_things_are_refused(tmp_path: Path) -> None:
    other = stop("A", "Newark").replace("101", "102")

    routes = read(tmp_path, stop("A", "Joliet"), stop("B", "Gary"), stop("B", "Erie"), other)

    assert set(pushed(routes)) == {"B"}
    assert "line 5 says something else than line 2" in faults(routes)[2]


def test_rows_at_the_beginning_that_name_no_route_are_refused(tmp_path: Path) -> None:
    routes = read(tmp_path, further("Joliet"), further("Toledo"), stop("A", "Gary"), further("Erie"))

    assert pushed(routes) == {"A": ["Gary", "Erie"]}
    assert faults(routes) == {2: "externalId: Required"}


def test_a_cell_beside_the_table_of_excel_spoils_its_route(tmp_path: Path) -> None:
    path = tmp_path / "loads.xlsx"
    book = openpyxl.Workbook()
    for line in (
        HEADING,
        stop("A", "Joliet"),
        stop("A", "Toledo", "Toledo,OH"),
        stop("A", "Newark"),
        stop("B", "Gary"),
        further("Erie"),
    ):
        book.active.append([cell or None for cell in line.split(",")])
    book.save(path)

    with open_route_file(path, {}, CHICAGO) as file:
        routes = list(file.routes)

    assert pushed(routes) == {"B": ["Gary", "Erie"]}
    assert set(faults(routes)) == {2, 3}


def test_a_sequence_orders_the_stops_of_a_route(tmp_path: Path) -> None:
    heading = f"{HEADING},stop_sequence"
    rows = [f"{stop('A', 'Newark')},3", f"{stop('A', 'Joliet')},1", f"{stop('A', 'Toledo')},2"]

    assert pushed(read(tmp_path, *rows, heading=heading)) == {"A": ["Joliet", "Toledo", "Newark"]}
    twice = read(tmp_path, *rows[:2], f"{stop('A', 'Toledo')},1", heading=heading)
    assert "two stops of the route have the same number" in faults(twice)[2]
    assert "has no number" in faults(read(tmp_path, *rows[:2], f"{stop('A', 'Toledo')},", heading=heading))[2]


def test_too_many_routes_that_stand_apart_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_tables, "MOST_OPEN_ROUTES", 2)
    rows = [stop(name, place) for place in ("Joliet", "Newark") for name in "ABC"]

    with pytest.raises(UnreadableFile, match="sort the file by externalId"):
        read(tmp_path, *rows)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from(sorted(PLACES)), st.booleans()), min_size=1, max_size=9),
    st.integers(0, 8),
    st.sampled_from([(", OH", 0), (", OH", 4), ('"', 0), ('"', 4), ('" x', 4), ("\0", 4)]),
)
def test_a_route_that_is_pushed_has_all_of_its_stops(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, bool]], at: int, damaged: tuple[str, int]
) -> None:
    """Whatever damages one row, and however the rows are ordered. A row may leave its route empty behind another."""
    lines, true, route = list[str](), dict[str, list[str]](), ""
    damage, cell = damaged
    for name, place, is_left in rows:
        left = is_left and route == name
        route = name
        true.setdefault(name, []).append(place)
        cells = (further(place) if left else stop(name, place)).split(",")
        if len(lines) == at % len(rows):
            cells[cell] = damage + cells[cell] if damage == '"' else cells[cell] + damage
        lines.append(",".join(cells))

    try:
        routes = read(tmp_path_factory.mktemp("damaged"), *lines)
    except UnreadableFile:
        return
    for name, stops in pushed(routes).items():
        if name in true:
            assert [one.removesuffix(damage) for one in stops] == true[name]


@pytest.mark.slow
def test_a_million_rows_take_little_memory(tmp_path: Path) -> None:
    """The survey keeps a number for each route; a fiftieth of the rows stands for all."""
    import tracemalloc

    path, text = tmp_path / "many.csv", io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(HEADING.split(","))
    for number in range(10_000):
        for place in ("Joliet", "Newark"):
            writer.writerow(stop(f"LOAD-{number}", place).split(","))
    path.write_text(text.getvalue())

    tracemalloc.start()
    with open_route_file(path, {}, CHICAGO) as file:
        assert next(file.routes).route is not None
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 2_000_000 + 10_000 * 250  # the first is for a file of any length
