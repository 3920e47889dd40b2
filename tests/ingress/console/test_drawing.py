"""The drawing of a route: whatever the places, everything lies inside of its frame, north is up, east is right."""

from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.routes.reading.history import History, LastPosition, StoredRoute
from ingress.console.drawing import MOST_POINTS, WIDTH, Frame, Symbol, draw_ground, draw_moving

NOW = datetime(2026, 11, 20, tzinfo=UTC)
PLACES = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


class Drawing(NamedTuple):
    """The ground, and above it what moves."""

    height: float
    road: str
    is_road: bool
    stations: list[Symbol]
    stops: list[Symbol]
    truck: Symbol | None


def draw(history: History, **explanation: Any) -> Drawing:
    explained: Any = explanation or None
    ground = draw_ground(history, explained)
    frame = Frame.read(ground.frame.text())
    assert frame == pytest.approx(ground.frame)
    moving = draw_moving(history, frame)
    return Drawing(ground.frame.height, ground.road, ground.frame.is_road, ground.stations, moving.stops, moving.truck)


def history(*stops: tuple[float, float], truck: tuple[float, float] | None = None) -> History:
    documents: Any = [{"name": "A", "latitude": latitude, "longitude": longitude} for latitude, longitude in stops]
    values = dict.fromkeys(StoredRoute._fields)
    route = StoredRoute(**{**values, "id": UUID(int=1), "stops": documents})
    return History(route, [], [], [], LastPosition(NOW, *truck) if truck is not None else None, [])


@given(stops=st.lists(PLACES, min_size=2, max_size=6), truck=st.none() | PLACES, line=st.lists(PLACES, max_size=6))
def test_everything_lies_inside_of_the_frame(
    stops: list[tuple[float, float]], truck: tuple[float, float] | None, line: list[tuple[float, float]]
) -> None:
    candidates = [{"name": "S", "mile": mile, "net_price": 3.0, "gallons": mile} for mile in (0.0, 2.5, 9.0)]
    miles = [float(mile) for mile in range(len(line))]
    drawing = draw(history(*stops, truck=truck), line=line, line_miles=miles, candidates=candidates)
    points = [tuple(map(float, point.split(","))) for point in drawing.road.split()]
    symbols = [*drawing.stops, *drawing.stations, *([drawing.truck] if drawing.truck else [])]
    assert len(drawing.stops) == len(stops)
    assert len(drawing.stations) == (3 if line else 0)
    for x, y in [*points, *((symbol.x, symbol.y) for symbol in symbols)]:
        assert 0 <= x <= WIDTH
        assert 0 <= y <= drawing.height
    assert 240 <= drawing.height <= 621


def test_north_is_up_and_east_is_right_also_over_the_antimeridian() -> None:
    south_west, north_east = draw(history((50.0, 179.5), (51.0, -179.5))).stops
    assert south_west.x < north_east.x
    assert south_west.y > north_east.y
    assert north_east.x - south_west.x > WIDTH / 4


def test_a_station_stands_at_its_mile_and_the_chosen_one_on_top() -> None:
    chosen = {"name": "Chosen", "mile": 5.0, "net_price": 3.1, "gallons": 80.0}
    rejected = {"name": "Rejected", "mile": 10.0, "net_price": 3.2, "gallons": 0.0}
    line: dict[str, Any] = {"line": [[40.0, -90.0], [40.0, -89.0]], "line_miles": [0.0, 20.0]}
    drawing = draw(history((40.0, -90.0), (40.0, -89.0)), **line, candidates=[chosen, rejected])
    first, last = drawing.stops
    other, best = drawing.stations
    assert (other.kind, best.kind) == ("rejected", "chosen")
    assert best.x == pytest.approx(first.x + (last.x - first.x) / 4, abs=0.2)
    assert other.x == pytest.approx(first.x + (last.x - first.x) / 2, abs=0.2)
    assert best.label == "Chosen, mile 5.0, $3.100: 80.0 gal"
    assert drawing.is_road


def test_a_map_without_a_plan_shows_straight_lines_between_the_stops() -> None:
    drawing = draw(history((40.0, -90.0), (41.0, -89.0), (40.0, -88.0)))
    assert not drawing.is_road
    assert len(drawing.road.split()) == 3


def test_a_truck_that_has_left_the_frame_stands_at_its_edge() -> None:
    frame = draw_ground(history((40.0, -90.0), (41.0, -89.0)), None).frame
    truck = draw_moving(history((40.0, -90.0), (41.0, -89.0), truck=(60.0, 10.0)), frame).truck
    assert truck is not None
    assert (truck.x, truck.y) == (WIDTH, 0.0)


@given(
    st.text() | st.lists(st.floats() | st.integers(), min_size=6, max_size=6).map(lambda one: ",".join(map(str, one)))
)
def test_a_text_that_describes_no_frame_is_read_as_none(text: str) -> None:
    frame = Frame.read(text)
    stops = draw_moving(history((40.0, -90.0), (41.0, -89.0)), frame).stops
    assert all(0 <= symbol.x <= WIDTH and 0 <= symbol.y <= 621 for symbol in stops)


@pytest.mark.slow
def test_a_road_that_turns_back_and_forth_is_drawn_with_few_points() -> None:
    line = [(40.0 + (place % 7) / 9, -90.0 + abs(place % 4_000 - 2_000) / 100) for place in range(200_000)]
    drawing = draw(
        history((40.0, -90.0), (40.0, -70.0)), line=line, line_miles=[*map(float, range(200_000))], candidates=[]
    )
    assert 100 < len(drawing.road.split()) <= MOST_POINTS
