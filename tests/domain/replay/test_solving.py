"""Laws of a replay of one trip, and of the compact form of its inputs."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning.explanation import Explanation, pack_explanation, unpack_explanation
from domain.planning.what_if import inputs_of, solve_under
from domain.replay import solving
from domain.replay.packed_inputs import UnreadableInputs, pack_inputs, unpack_inputs
from domain.replay.solving import Side, Solved, TripOutcome, solve_sides
from domain.replay.terms import ReplayTerms, Terms, UnusableTerm, parse_terms, replay_terms, term_texts
from domain.stations.prices import Deal
from tests.domain.planning.plans import priced, usual_policy
from tests.domain.replay.driven import MESA, STATIONS, explained
from tests.repeatable import examples

AS_IT_WAS = Terms()
BRANDS = ("Mesa", "Magnolia", "Star")
CENTS = st.integers(280, 420).map(lambda cents: cents / 100)
PLACES = st.lists(
    st.tuples(st.integers(1, 59), CENTS, st.sampled_from(BRANDS), st.booleans()),
    min_size=4,
    max_size=12,
    unique_by=lambda one: one[0],
)
POLICIES = st.fixed_dictionaries(
    {
        "stop_cost": st.sampled_from([0.0, 20.0]),
        "objective": st.sampled_from(["pump", "tax-adjusted"]),
        "max_stops": st.sampled_from([None, 2]),
    }
)


def trip(places: list[tuple[int, float, str, bool]], **policy: Any) -> Explanation:
    deals = {brand: Deal(0.25, None, number, brand) for number, brand in enumerate(BRANDS, 1)}
    return explained(
        [
            (priced(10 * mile, price, brand=brand, tax=0.2), (deals[brand],) if has_deal else ())
            for mile, price, brand, has_deal in sorted(places)
        ],
        **policy,
    )


def replayed(explanation: Explanation, after: Terms, before: Terms = AS_IT_WAS, **policy: Any) -> Solved:
    return solve_sides(inputs_of(explanation), ReplayTerms(usual_policy(**policy)._asdict(), before, after))


def both(solved: Solved) -> tuple[Side, Side]:
    assert solved.before is not None
    assert solved.after is not None
    return solved.before, solved.after


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(40))
@given(PLACES, POLICIES, st.sampled_from(BRANDS), st.sampled_from([0.05, 0.45, 2.0]))
def test_what_may_only_help_never_costs_more(
    places: list[tuple[int, float, str, bool]], policy: dict[str, Any], brand: str, dollars: float
) -> None:
    explanation = trip(places, **policy)
    same = replayed(explanation, Terms(), **policy)
    if same.outcome is not TripOutcome.COMPARED:
        return
    assert same.before == same.after, "without a change the difference is zero to the cent"
    without_deal, without_brand, discounted = (
        replayed(explanation, terms, **policy)
        for terms in (
            Terms(without_deals=(brand,)),
            Terms(without_brands=(brand,)),
            Terms(discounts=((brand, dollars),)),
        )
    )
    before, after = both(discounted)
    assert after.cost_cents <= before.cost_cents
    for solved in (without_deal, without_brand):
        if solved.outcome is TripOutcome.COMPARED:
            before, after = both(solved)
            assert after.cost_cents >= before.cost_cents
        else:
            assert solved.outcome in (TripOutcome.INFEASIBLE, TripOutcome.OTHER_LIMITS)
    for solved in (same, discounted):
        for side, of_side in zip(both(solved), ("before", "after"), strict=True):
            assert side.pump_cents == sum(getattr(one, f"cents_{of_side}") for one in solved.stations)


CHANGES = (
    Terms(without_deals=("Mesa",)),
    Terms(without_brands=("Star",)),
    Terms(discounts=(("Star", 0.3),)),
    Terms({"stop_cost": 5.0}),
    Terms({"margin_dollars": 5.0}, without_brands=("Magnolia",)),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(40), derandomize=True)
@given(PLACES, POLICIES, st.sampled_from(CHANGES), st.booleans())
def test_the_figures_are_the_same_when_every_side_is_solved_by_itself(
    places: list[tuple[int, float, str, bool]], policy: dict[str, Any], after: Terms, weighs_deals: bool
) -> None:
    kept = inputs_of(trip(places, **policy))
    changed = Terms() if weighs_deals else after
    terms = replay_terms(usual_policy(**policy), Terms(), changed, weighs_deals=weighs_deals)
    found = solve_sides(kept, terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "_stays_cheapest", lambda *_: False)
        patch.setattr(solving, "solve_under", by_itself)
        assert solve_sides(kept, terms) == found


def by_itself(*given: Any, known: Any = None, **options: Any) -> Any:
    """The trip solved without anything that is known of it."""
    return solve_under(*given, **options)


def test_a_trip_that_buys_nothing_at_a_chain_is_not_solved_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Any] = []

    def counted(*given: Any, **known: Any) -> Any:
        solved.append(given)
        return solve_under(*given, **known)

    monkeypatch.setattr(solving, "solve_under", counted)
    explanation = trip(
        [(5, 3.0, "Mesa", False), (30, 3.1, "Mesa", False), (40, 4.2, "Star", True), (55, 4.0, "Star", False)]
    )
    before, after = both(replayed(explanation, Terms(without_brands=("Star",))))
    assert before == after
    assert len(solved) == 1
    replayed(explanation, Terms(without_brands=("Mesa",)))
    assert len(solved) == 3


@settings(deadline=None, max_examples=examples(20))
@given(PLACES, st.sampled_from([None, 40.0]))
def test_packed_inputs_are_the_inputs(places: list[tuple[int, float, str, bool]], fuel_percent: float | None) -> None:
    explanation = unpack_explanation(pack_explanation(trip(places, fuel_percent=fuel_percent)))
    kept = inputs_of(explanation)
    assert unpack_inputs(pack_inputs(kept)) == kept


def test_the_deals_at_a_station_are_named_in_the_order_of_their_numbers() -> None:
    held = [Deal(0.10, None, number, "Mesa") for number in (7, 2, 5)]
    explanation = explained([(priced(300, 3.5, brand="Mesa"), held)])
    assert [one["deals"] for one in explanation["candidates"]] == [[2, 5, 7]]


def test_odd_numbers_are_kept_as_they_are_and_broken_bytes_are_refused() -> None:
    explanation = explained()
    explanation["candidates"][0]["mile"] = 10 / 3
    del explanation["deals"]
    kept = inputs_of(explanation)
    assert unpack_inputs(pack_inputs(kept)) == kept
    for broken in (b"", b"packed", pack_inputs(kept)[:-9]):
        with pytest.raises(UnreadableInputs):
            unpack_inputs(broken)


def test_prices_that_were_not_told_apart_are_not_guessed() -> None:
    explanation = explained()
    del explanation["deals"]
    assert replayed(explanation, Terms(without_deals=("all",))).outcome is TripOutcome.PRICES_UNKNOWN
    assert replayed(explanation, Terms(discounts=(("Mesa", 0.4),))).outcome is TripOutcome.PRICES_UNKNOWN
    del explanation["candidates"][0]["brand"]
    assert replayed(explanation, Terms(without_brands=("Mesa",))).outcome is TripOutcome.BRANDS_UNKNOWN
    assert replayed(explanation, Terms({"stop_cost": 0.0})).outcome is TripOutcome.COMPARED


def test_a_trip_that_needs_a_chain_becomes_infeasible_and_one_too_far_is_left_out() -> None:
    explanation = explained()
    assert replayed(explanation, Terms(only_brands=("nobody",))).outcome is TripOutcome.INFEASIBLE
    assert replayed(explanation, Terms({"max_detour_miles": 9.0})).outcome is TripOutcome.TOO_FAR
    assert replayed(explanation, Terms(), Terms(only_brands=("nobody",))).outcome is TripOutcome.FEASIBLE


def test_each_deal_is_worth_what_the_trip_costs_more_without_it() -> None:
    terms = replay_terms(usual_policy(), Terms(), Terms(), weighs_deals=True)
    solved = solve_sides(inputs_of(explained()), terms)
    worths = {use.number: use.worth_cents for use in solved.deals}
    assert worths
    for number, worth in worths.items():
        before, after = both(replayed(explained(), Terms(without_deals=(str(number),))))
        assert worth == pytest.approx(after.cost_cents - before.cost_cents, abs=1)
    off = {one.station_id for one in solved.off_network}
    assert off <= {one.station.station_id for one, deals in STATIONS if not deals}
    at_least = sum(one.gallons for one in solved.off_network)
    at_most = sum(one.gallons_with_cent for one in solved.off_network)
    assert at_least - 0.01 <= solved.cent_worth_cents <= at_most + 0.01


def test_terms_are_read_as_they_are_written() -> None:
    texts = ["reserve=12", "max_stops=none", "without-brand=Blue Mesa", "only-brand=A", "without-deal=7"]
    terms = parse_terms([*texts, "discount=Love's=0.45"])
    assert terms.policy == {"reserve_percent": 12.0, "max_stops": None}
    assert terms.discounts == (("Love's", 0.45),)
    assert parse_terms(term_texts(terms)) == terms
    assert terms.has_brand("A")
    assert not terms.has_brand("BLUE MESA")
    assert terms.removes(Deal(0.1, None, 7, "B"), "S1")
    assert not terms.removes(MESA, "7"), "7 is a number, whatever a station is called"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("reserve", "is no term"),
        ("max=3", "max_detour_miles, max_stops"),
        ("reserve=120", "reserve"),
        ("stop_cost=cheap", "stop_cost"),
        ("discount=0.45", "is no discount"),
        ("discount=X=-1", "is no discount"),
        ("discount=X=4.5", "1.50 at most"),
        ("discount=X=nan", "is no discount"),
    ],
)
def test_terms_that_make_no_sense_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnusableTerm, match=why):
        parse_terms([text])


def test_deals_are_not_weighed_under_other_terms() -> None:
    with pytest.raises(UnusableTerm, match="leave the other terms out"):
        replay_terms(usual_policy(), Terms(), Terms(without_brands=("Mesa",)), weighs_deals=True)
