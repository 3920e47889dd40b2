"""Some trips of a truck are believed, and agree on its mileage."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.burn.figures import FleetFigure, LearnedFigure, figure_of
from domain.burn.learned import HALF_LIFE, TripBurn, agreed_burn, believed, measure_trip
from domain.burn.tanks import differs, tank_by_fills, tanks_by_fills
from domain.burn.trip_levels import (
    CardFuel,
    LevelFix,
    at_miles,
    levels_of,
    one_purchase_a_stop,
    pack_levels,
    unpack_levels,
)
from domain.ids import new_id
from domain.lifecycle import MpgChoice
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE
from tests.domain.burn.trips import MPH, levels

START = datetime(2026, 11, 2, 6, tzinfo=UTC)


def trip(mpg: float = 6.0, *, days: float = 0, miles: float = 900.0, hours: float = 20) -> TripBurn:
    started = START + timedelta(days=days)
    return TripBurn(new_id(), started, started + timedelta(hours=hours), miles, miles / mpg, 3.0)


def measured(sent: Any, *bought: CardFuel, capacity_gallons: float = 200.0, known: float = 6.5) -> TripBurn:
    return measure_trip(
        TripBurn(UUID(int=1), START, sent[-1].at), [sent], bought, capacity_gallons=capacity_gallons, known_mpg=[known]
    )


def fueled(mile: float, gallons: float) -> CardFuel:
    return CardFuel(START + timedelta(hours=mile / MPH), gallons)


def doubts(*trips: TripBurn) -> list[str | None]:
    by_id = {one.route_id: one.doubt for one in believed(trips)}
    return [by_id[one.route_id] for one in trips]


def test_a_trip_is_measured_from_its_levels_alone_and_better_with_its_fills() -> None:
    bought = {450.0: 90.0}
    for seed in range(10):
        sent = levels(900, 5.6, START, bought=bought, seed=seed)
        by_gauge, by_card = measured(sent), measured(sent, fueled(450, 90))
        assert (by_gauge.doubt, by_card.doubt, by_gauge.by_card, by_card.by_card) == (None, None, False, True)
        assert by_gauge.mpg == pytest.approx(5.6, rel=0.06)
        assert by_card.mpg == pytest.approx(5.6, rel=0.03)


def test_the_fill_of_another_truck_changes_nothing() -> None:
    sent = levels(900, 5.6, START, bought={450.0: 90.0})
    elsewhere = measured(sent, fueled(200, 90), fueled(700, 110))
    assert elsewhere.mpg == pytest.approx(measured(sent).mpg, rel=0.001)


GAUGES: dict[str, tuple[float, dict[str, Any], str]] = {
    "30 miles": (30, {}, "levels"),
    "80 miles": (80, {}, "short"),
    "much noise on a short way": (120, {"noise_percent": 4.0}, "noise"),
    "dead": (900, {"shown": lambda mile, level: 60.0}, "levels"),
    "sticks at first": (900, {"shown": lambda mile, level: 90.0 if mile < 300 else level}, "gauge"),
    "sticks below": (900, {"shown": lambda mile, level: max(level, 70.0)}, "gauge"),
    "falls at once": (900, {"shown": lambda mile, level: level if mile < 700 else level - 20}, "gauge"),
    "shows a quarter": (900, {"shown": lambda mile, level: 50 + level / 4}, "mileage"),
}


@pytest.mark.parametrize(("miles", "gauge", "doubt"), GAUGES.values(), ids=GAUGES.keys())
def test_a_trip_that_proves_nothing_is_not_believed(miles: float, gauge: dict[str, Any], doubt: str) -> None:
    found = [measured(levels(miles, 6.0, START, bought={450.0: 90.0}, seed=seed, **gauge)).doubt for seed in range(10)]
    assert doubt in found
    assert None not in found


def test_an_ordinary_gauge_is_believed() -> None:
    for seed in range(30):
        sent = levels(900, 6.0, START, bought={450.0: 90.0}, noise_percent=1.5, seed=seed)
        assert measured(sent).doubt is None


def test_a_mileage_is_believed_near_any_figure_known_before() -> None:
    van = levels(900, 15.0, START, capacity_gallons=60.0, begins=99.0, bought={300.0: 19.0, 600.0: 19.0})
    assert measured(van, capacity_gallons=60.0).doubt == "mileage"
    assert measured(van, capacity_gallons=60.0, known=14.0).doubt is None


def test_of_two_trips_on_the_same_miles_the_longer_one_counts() -> None:
    long, within, behind = trip(hours=40, miles=1900), trip(days=0.5, hours=5, miles=240), trip(days=3)
    assert doubts(long, within, behind) == [None, "overlap", None]
    assert doubts(behind, within, long) == [None, "overlap", None]


def test_a_trip_far_from_the_others_does_not_count() -> None:
    odd = trip(9.0, days=20)
    assert doubts(trip(6.0), trip(6.2, days=5), trip(5.9, days=10), odd) == [None, None, None, "others"]
    assert doubts(trip(6.0), odd) == [None, None], "two trips cannot say which of them is odd"


def test_newer_trips_count_more() -> None:
    old, new = trip(6.0), trip(7.0, days=HALF_LIFE.days)
    found = agreed_burn(believed([old, new]))
    assert found is not None
    assert found.mpg == pytest.approx(1.5 * 900 / (900 / 7 + 450 / 6))
    assert [one.mpg for one in found.trips] == [pytest.approx(7.0), pytest.approx(6.0)]
    assert agreed_burn([replace(old, doubt="gauge")]) is None


def test_a_figure_is_proven_by_three_trips_and_1500_miles() -> None:
    def proven(*trips: TripBurn) -> bool:
        found = agreed_burn(believed(trips))
        return found is not None and found.is_proven

    assert proven(trip(), trip(days=3), trip(days=6))
    assert not proven(trip(miles=2000), trip(days=3))
    assert not proven(*(trip(miles=400, days=3 * number) for number in range(3)))


def own(mpg: float, *, spread: float = 6.0, trips: int = 4) -> LearnedFigure:
    taught = agreed_burn(believed([trip(mpg, days=3 * number) for number in range(trips)]))
    assert taught is not None
    return replace(taught, spread_percent=spread)


FLEET = FleetFigure(6.9, 5.0, 14, of_model=True)


@pytest.mark.parametrize(
    ("declared", "learned", "choice", "figure"),
    [
        (None, None, "learned", (6.9, "fleet", None)),
        (None, own(5.6, trips=2), "learned", (6.9, "fleet", None)),
        (None, own(5.6), "declared", (5.6, "learned", None)),
        (7.0, None, "learned", (7.0, "declared", None)),
        (7.0, own(5.6, trips=2), "learned", (7.0, "declared", None)),
        (7.0, own(5.6), "learned", (5.6, "learned", 7.0)),
        (7.0, own(5.6), "declared", (7.0, "declared", None)),
        (7.0, own(5.6), "lower", (5.6, "learned", 7.0)),
        (5.0, own(5.6), "lower", (5.0, "declared", None)),
        (5.9, own(5.6), "learned", (5.9, "declared", None)),
        (5.9, own(5.6, spread=2.0), "learned", (5.6, "learned", 5.9)),
    ],
    ids=map(str, range(11)),
)
def test_the_figure_of_a_plan(
    declared: float | None, learned: LearnedFigure | None, choice: str, figure: tuple[float, str, float | None]
) -> None:
    burn = figure_of(declared, learned, FLEET, MpgChoice(choice))
    assert (burn.mpg, burn.kind, burn.instead_of_mpg) == figure


def test_a_figure_says_where_it_comes_from() -> None:
    burn = figure_of(7.0, own(5.6))
    assert burn.in_words == "5.6 mpg instead of 7.0, from 4 trips of the truck, 3,600 mi"
    document = burn.document()
    assert (document["kind"], document["instead_of_mpg"], document["spread_percent"]) == ("learned", 7.0, 6.0)
    assert [trip["miles"] for trip in document["trips"]] == [900.0] * 4
    assert figure_of(None, None, FLEET).in_words == "6.9 mpg, from the median of 14 trucks of its make and model"
    assert figure_of(None, None, FLEET._replace(of_model=False)).source == "the median of 14 trucks of the company"


def fixes(miles: float, every: float, *, percent: float | None = 50.0) -> list[LevelFix]:
    return [
        LevelFix(Point(30 + step * every / MILES_PER_DEGREE, -100.0), START + timedelta(minutes=5 * step), percent)
        for step in range(int(miles / every) + 1)
    ]


def test_the_way_is_that_of_the_fixes_or_of_the_road_that_it_took() -> None:
    way = fixes(500, 5)
    assert levels_of(way, road_miles=None)[0][-1].mile == pytest.approx(500)
    assert levels_of(way, road_miles=512)[0][-1].mile == pytest.approx(512)
    assert levels_of(way, road_miles=700)[0][-1].mile == pytest.approx(500), "it took another road"
    assert levels_of(way, road_miles=450)[0][-1].mile == pytest.approx(500)
    assert levels_of([], road_miles=500) == []


def test_miles_that_nobody_saw_divide_a_trip() -> None:
    way = [one for number, one in enumerate(fixes(500, 5)) if not 40 < number < 50]
    first, second = levels_of(way, road_miles=500)
    assert first[-1].mile == pytest.approx(200)
    assert second[0].mile == pytest.approx(250)


def test_a_standing_truck_drives_no_miles() -> None:
    standing = [
        LevelFix(Point(30 + (number % 2) * 0.0005, -100.0), START + timedelta(minutes=number), 50.0)
        for number in range(600)
    ]
    assert levels_of(standing, road_miles=None)[0][-1].mile == 0


def test_levels_are_the_same_after_packing() -> None:
    sent = levels(1900, 6.0, START, every_miles=2.0)
    packed = pack_levels([sent[:400], sent[450:]], START)
    assert len(packed) < 4_000
    first, second = unpack_levels(packed, START)
    assert len(first) + len(second) == len(sent) - 50
    assert [one.percent for one in first] == [one.percent for one in sent[:400]]
    assert all(abs(one.mile - two.mile) < 0.01 for one, two in zip(second, sent[450:], strict=True))
    assert pack_levels(unpack_levels(packed, START), START) == packed
    assert unpack_levels(pack_levels([], START), START) == []


def test_both_tanks_at_one_pump_are_one_purchase() -> None:
    at = [CardFuel(START + timedelta(minutes=minutes), 60.0) for minutes in (0, 12, 300)]
    assert [one.gallons for one in one_purchase_a_stop(at)] == [120.0, 60.0]
    sent = levels(900, 6.0, START)
    assert [one.mile for one in at_miles([fueled(-20, 50), fueled(450, 80), fueled(1000, 50)], sent)] == [
        pytest.approx(450)
    ]


def filled(tank: float, purchases: Mapping[float, float], seed: int) -> list[float]:
    """The tanks that a trip's fills tell, where the true tank holds so much."""
    sent = levels(1200, 6.0, START, capacity_gallons=tank, bought=purchases, seed=seed, begins=75)
    return list(tanks_by_fills([sent], [fueled(mile, gallons) for mile, gallons in purchases.items()]))


def test_fills_tell_the_usable_tank() -> None:
    tanks = [one for seed in range(3) for one in filled(240, {400.0: 90.0, 800.0: 80.0}, seed)]
    assert len(tanks) == 6
    tank = tank_by_fills(tanks)
    assert tank is not None
    assert tank == pytest.approx(240, rel=0.04)
    assert differs(tank, 280)
    assert not differs(tank, 240)
    assert tank_by_fills(tanks[:4]) is None, "too few"
    assert tank_by_fills([150, 200, 250, 300, 350]) is None, "they do not agree"


def test_a_full_gauge_and_a_small_purchase_tell_no_tank() -> None:
    assert filled(240, {100.0: 90.0}, 1) == []
    assert filled(240, {400.0: 30.0}, 1) == []
