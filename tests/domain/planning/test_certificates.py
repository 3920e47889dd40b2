"""Certificates prove what they say to a checker that shares nothing with the optimizer, and it accepts nothing else."""

import ast
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.clients.python.fuelroute_client import certificates
from deploy.clients.python.fuelroute_client.certificates import NotProven, Refused, check_certificate
from domain.lifecycle import ChoiceKind
from domain.planning.certificate import certificate_of, certificate_of_trip
from domain.planning.explanation import ExplainedChoice
from domain.planning.fuel_plan import Chosen, ComputedPlan, compute_plan
from domain.planning.menu import find_choices
from domain.planning.optimizer import solve
from domain.planning.pump_steps import step_of
from domain.planning.rounding import solve_rounded
from domain.planning.trips import (
    BrokenPlan,
    BurnedBy,
    Candidate,
    Infeasible,
    Purchase,
    Solution,
    Trip,
    drive_trip,
    objective_of,
)
from tests.benchmarks.exact import everything
from tests.domain.planning.plans import inputs, meridian, priced
from tests.domain.planning.trips import VARIANTS, coarse_trips, random_trip, trip
from tests.repeatable import examples

CHECKER = Path(certificates.__file__)
CASES = Path(__file__).parents[2] / "cases" / "certificates"


def certified(trip: Trip) -> bytes:
    """The certificate of the trip's plan, or that it has none. A trip of a stored plan has no condition on its first
    stop."""
    trip = replace(trip, first_stops=None)
    solution = solve_rounded(trip)
    purchases = solution.purchases if isinstance(solution, Solution) else None
    return certificate_of_trip(trip, purchases, [max(one.price, 0.0) for one in trip.candidates], {"test": True})


def changed(certificate: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(certificate)
    change(document)
    return written(document)


def written(document: dict[str, Any]) -> bytes:
    """The document with numbers that have no exponent."""
    return re.sub(r"\d[\d.]*e-\d+", lambda number: f"{Decimal(number[0]):f}", json.dumps(document)).encode()


def of_road() -> bytes:
    """The certificate of a plan with two stops past five stations."""
    stations = [priced(mile, price, east_miles=1) for mile, price in ((90, 3.9), (200, 3.4), (310, 3.6), (550, 3.3))]
    plan = compute_plan(inputs(meridian(1000), *stations, priced(800, 3.7)))
    assert isinstance(plan, ComputedPlan)
    assert len(plan.stops) == 2
    return certificate_of(plan.packed_explanation, route="rte_1")


def dearer() -> bytes:
    """The certificate of a plan that is not the cheapest: it buys some gallons at a dearer station than it needs to."""
    three = trip((100, 3.5), (200, 3.0), (300, 3.2), distance_miles=700.0, stop_cost=5.0)
    purchases = [Purchase(1, 60.0), Purchase(2, 30.1)]
    drive_trip(three, purchases)
    return certificate_of_trip(three, purchases, [one.price for one in three.candidates], {"route": None})


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_trips_with_and_without_each_limit_have_certificates(variant: str) -> None:
    for seed in range(2000, 2006):
        check_certificate(certified(VARIANTS[variant](random_trip(seed))))


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(coarse_trips())
def test_trips_whose_limits_meet_exactly_have_certificates(trip: Trip) -> None:
    check_certificate(certified(trip))


@pytest.mark.parametrize("seed", range(12))
def test_plans_with_everything_in_play_and_their_choices_have_certificates(seed: int) -> None:
    plan = compute_plan(everything(seed)[0])
    proven = check_certificate(certificate_of(plan.packed_explanation))
    if not isinstance(plan, ComputedPlan):
        assert proven.startswith("There is no plan that passes")
        return
    assert proven.startswith(f"The plan costs ${plan.objective:.4f}, $0.0000 more than the cheapest: no plan in ")
    for choice in find_choices(plan):
        told = ExplainedChoice(kind=choice.kind, extra_cost=float(choice.extra), extra_at_pumps=0.0, cheapest_cost=0.0)
        proven = check_certificate(certificate_of(replace(choice.plan, chosen=Chosen(plan, told)).packed_explanation))
        above = re.search(r" as its driver chose, \$(\d+\.\d{4}) more", proven)
        assert above is not None
        if choice.kind is not ChoiceKind.FEWER_STOPS:  # its limit of stops is among its inputs
            assert abs(float(above[1]) - told["extra_cost"]) < 0.03


def test_a_plan_that_must_not_break_a_limit_by_a_millionth_is_compared_with_those_that_keep_it() -> None:
    """Half a millionth of a gallon more in the tank would spare the dear station."""
    tight = trip((100, 3.0), (500, 9.0), distance_miles=545.0, usable_gallons=98.9999995, stop_cost=5.0)
    proven = check_certificate(certified(tight))
    assert "with 0.000002 gallons of room" in proven


def test_a_limit_of_stops_that_binds_is_part_of_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound counts stops, because too many plans with more stops are left to be tried."""
    monkeypatch.setattr("domain.planning.certificate.MOST_TRIED_FOR_PROOF", 60)
    free = trip(*((mile, 3 + mile % 70 / 100) for mile in range(20, 480, 20)), stop_cost=0.01, distance_miles=900.0)
    most = len(solve(free).purchases) - 1  # type: ignore[union-attr]

    certificate = certified(replace(free, max_stops=most))

    assert json.loads(certificate)["bound"]["counts_stops"] is True
    check_certificate(certificate)
    with pytest.raises(Refused):
        check_certificate(changed(certificate, lambda file: file["trip"].update(max_stops=most + 1)))


def others(trip: Trip, cheapest: Solution) -> Iterator[Sequence[Purchase]]:
    """The cheapest plans that miss one of the cheapest plan's stops, and that plan with a step more at one of them."""
    for place, (index, gallons) in enumerate(cheapest.purchases):
        dear = tuple(one._replace(price=99.0) if at == index else one for at, one in enumerate(trip.candidates))
        other = solve_rounded(replace(trip, candidates=dear))
        if isinstance(other, Solution):
            yield other.purchases
        more = list(cheapest.purchases)
        more[place] = Purchase(index, round(gallons + step_of(cheapest.purchases), 3))
        with suppress(BrokenPlan):
            drive_trip(trip, more)
            yield more


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(coarse_trips() | st.builds(random_trip, st.integers(0, 10_000)))
def test_a_plan_that_is_not_the_cheapest_is_never_proven(trip: Trip) -> None:
    cheapest = solve_rounded(trip)
    if isinstance(cheapest, Infeasible):
        return
    proven = json.loads(certified(trip))
    assert "$0.0000 more than the cheapest" in check_certificate(written(proven))
    for purchases in others(trip, cheapest):
        certificate = certificate_of_trip(trip, purchases, [max(one.price, 0.0) for one in trip.candidates], {})
        if objective_of(trip, purchases) - cheapest.objective < 2e-4:
            continue
        with pytest.raises(NotProven, match=r"the plan costs \$\d+\.\d{4} more than the cheapest"):
            check_certificate(certificate)
        document = json.loads(certificate)
        document["plan"]["cheapest"] = None
        for bound in (document["bound"], proven["bound"]):
            with pytest.raises(Refused):
                check_certificate(written(document | {"bound": bound}))


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a cent more at a stop": lambda file: add(file["plan"]["stops"][0], 2, 0.01),
    "a cent more in all": lambda file: add(file["plan"], "dollars", 0.01),
    "a cent less by the objective": lambda file: add(file["plan"], "cost", -0.01),
    "a gallon more": lambda file: add(file["plan"]["stops"][0], 1, 1),
    "a gallon less": lambda file: add(file["plan"]["stops"][1], 1, -1),
    "coarser steps": lambda file: file["plan"].update(step_gallons=1),
    "steps of nothing": lambda file: file["plan"].update(step_gallons=0),
    "steps below nothing": lambda file: file["plan"].update(step_gallons=-0.1),
    "a cheaper one that is none": lambda file: file["plan"].update(cheapest={"stops": [], "dollars": 0, "cost": 0}),
    "stops in another order": lambda file: file["plan"]["stops"].reverse(),
    "a stop twice": lambda file: file["plan"]["stops"].append(file["plan"]["stops"][-1]),
    "no stops": lambda file: file["plan"].update(stops=[], dollars=0, cost=0),
    "no plan at all": lambda file: file.update(plan=None),
    "a candidate missing": lambda file: file["candidates"].pop(2),
    "the last candidate missing": lambda file: file["candidates"].pop(),
    "a price a cent lower": lambda file: add(file["candidates"][1], 5, -0.01),
    "a price that was not paid a dollar lower": lambda file: add(file["candidates"][2], 5, -1),
    "a pump price a cent lower": lambda file: add(file["candidates"][1], 4, -0.01),
    "candidates in another order": lambda file: file["candidates"].reverse(),
    "no proof": lambda file: file["bound"].update(functions=[]),
    "a function missing": lambda file: file["bound"]["functions"].pop(0),
    "a function that comes twice": lambda file: file["bound"]["functions"].append(file["bound"]["functions"][0]),
    "a function that is a little too high": lambda file: add(file["bound"]["functions"][-1][2][0], 1, 0.01),
    "levels that fall": lambda file: file["bound"]["functions"][0][2].reverse(),
    "the burn told twice": lambda file: file["trip"].update(burned=[[0, 0], [1000, 100]]),
    "a mileage of zero": lambda file: file["trip"].update(mpg=0),
    "a mileage of letters": lambda file: file["trip"].update(mpg="many"),
    "legs that end too early": lambda file: file["trip"].update(mpg=None, burned=[[0, 0], [10, 2]]),
    "legs that burn less than nothing": lambda file: file["trip"].update(
        mpg=None, burned=[[0, 0], [999, 9], [1000, 8]]
    ),
    "much to spare": lambda file: file["trip"].update(spare_gallons=20),
    "a negative reserve": lambda file: file["trip"].update(reserve_gallons=-100),
    "a larger smallest purchase": lambda file: file["trip"].update(min_purchase_gallons=160),
    "fewer stops allowed": lambda file: file["trip"].update(max_stops=1),
    "a smaller tank": lambda file: file["trip"].update(usable_gallons=80),
    "a fuller tank at the start": lambda file: file["trip"].update(start_gallons=190),
    "a detour that is not told": lambda file: file["candidates"][0].__setitem__(3, None),
    "one leg to nowhere": lambda file: file["trip"].update(distance_miles=0, mpg=None, burned=[[0, 0]]),
    "legs that are no list": lambda file: file["trip"].update(burned=0),
    "another version": lambda file: file.update(format="fuelroute-certificate-3"),
    "a field too many": lambda file: file["trip"].update(discount=1),
    "a list for an object": lambda file: file.update(trip=[]),
    "an object for a list": lambda file: file.update(candidates={}),
}


def add(parent: Any, name: Any, amount: float) -> None:
    parent[name] = round(parent[name] + amount, 9)


@pytest.mark.parametrize("change", CHANGES)
def test_a_certificate_that_was_changed_proves_nothing(change: str) -> None:
    with pytest.raises(Refused):
        check_certificate(changed(of_road(), CHANGES[change]))


USABLE = b'"usable_gallons":190'

HOSTILE = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "an object": b"{}",
    "no text": b"\xff\xfe",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"format":' * 200_000,
    "one field": b'{"format": "fuelroute-certificate-1"}',
    **{
        number: of_road().replace(USABLE, b'"usable_gallons":' + number.encode())
        for number in ("NaN", "Infinity", "-Infinity", "1e400", "1e5", "9" * 5000, "0." + "1" * 5000, "true", '"190"')
    },
    "a field twice": of_road().replace(USABLE, USABLE + b"," + USABLE),
    "two plans": of_road().replace(b'"plan":{', b'"plan":null,"plan":{'),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files_are_refused(what: str) -> None:
    assert USABLE in of_road()
    with pytest.raises(Refused):
        check_certificate(HOSTILE[what])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document."""
    yield path
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*path, name))


def at(document: Any, path: Sequence[Any]) -> Any:
    for name in path:
        document = document[name]
    return document


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def holds(document: dict[str, Any]) -> bool:
    """True if the statement of a certificate is true, by the optimizer that made it."""
    given: dict[str, Any] = dict(document["trip"])
    plan: dict[str, Any] | None = document["plan"]
    given["burned"] = tuple(BurnedBy(*leg) for leg in given["burned"])
    given["candidates"] = tuple(Candidate(*one[:4], *one[5:]) for one in document["candidates"])
    spare, mpg = given.pop("spare_gallons"), given.pop("mpg") or 1.0
    trip = Trip(**given, mpg=mpg)
    best = solve_rounded(trip)
    if plan is None or isinstance(best, Infeasible):
        return plan is None and isinstance(best, Infeasible)
    least = plan["cheapest"] or plan
    try:
        cost, cheapest = (driven(trip, one) for one in (plan, least))
    except BrokenPlan:
        return False
    as_told = abs(cost - plan["cost"]) < 1e-4 and abs(cheapest - least["cost"]) < 1e-4
    is_cheapest = cheapest - best.objective < 2e-4 and (plan["chosen"] or cost - cheapest < 2e-4)
    return bool(spare > 0 or (as_told and is_cheapest))


def driven(trip: Trip, plan: dict[str, Any]) -> float:
    """The cost of a plan. Raises BrokenPlan."""
    purchases = [Purchase(int(index), gallons) for index, gallons, _ in plan["stops"]]
    drive_trip(trip, purchases, tolerance_gallons=2e-6)
    return objective_of(trip, purchases)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_number_is_changed_the_checker_accepts_nothing_that_is_wrong(seed: int) -> None:
    rng, refused = random.Random(f"tampered {seed}"), 0
    variant = rng.choice(["legs and floors", "positive prices", "three stops", "free stops", "no smallest purchase"])
    certificate = certified(VARIANTS[variant](random_trip(3000 + seed)))
    whole = json.loads(certificate)
    numbers = [path for path in places(whole) if is_number(at(whole, path))]
    for _ in range(60):
        document = json.loads(certificate)
        *path, last = rng.choice(numbers)
        parent = at(document, path)
        add(parent, last, rng.choice([0.01, -0.01, 1.0, -1.0, rng.uniform(-50, 50), -2 * parent[last]]))
        try:
            check_certificate(written(document))
        except Refused:
            refused += 1
        else:
            assert holds(document), (path, last, parent[last])
    assert refused > 5


def test_whatever_stands_in_the_place_of_a_value_the_checker_only_refuses() -> None:
    rng, certificate, accepted = random.Random("junk"), of_road(), 0
    junk: list[Any] = [None, True, False, "", "a", [], {}, [[]], [1, 2], {"a": 1}, -1, 0, 999_999_999, "190"]
    inner = [path for path in places(json.loads(certificate)) if path and path[0] != "about"]
    for path in rng.choices(inner, k=300):
        document = json.loads(certificate)
        at(document, path[:-1])[path[-1]] = rng.choice(junk)
        with suppress(Refused):
            check_certificate(written(document))
            accepted += 1
    assert accepted < 60


def test_the_checker_is_short_and_stands_alone() -> None:
    text = CHECKER.read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    modules = {
        name
        for node in imports
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert len(text.splitlines()) <= 200
    assert modules <= sys.stdlib_module_names


def test_the_checker_runs_by_itself(tmp_path: Path) -> None:
    files = {"right": of_road(), "wrong": changed(of_road(), CHANGES["a gallon more"]), "dear": dearer()}
    for name, certificate in files.items():
        (tmp_path / name).write_bytes(certificate)

    right, wrong, dear = (
        subprocess.run([sys.executable, "-I", CHECKER, tmp_path / name], capture_output=True, text=True, check=False)
        for name in files
    )

    assert (right.returncode, right.stderr) == (0, "")
    assert right.stdout.startswith("The plan costs $")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("Refused: ")
    assert (dear.returncode, dear.stdout) == (3, "")
    assert dear.stderr.startswith("Not proven: the plan costs $")


def test_a_certificate_of_the_version_before_is_judged_as_it_was() -> None:
    """Its plan may cost up to 51 cents more than the bound, and it says how much."""
    certificate = (CASES / "version-1.json").read_bytes()
    told = "The plan costs $544.2200, at most $0.0001 more than the cheapest: no plan that passes these 5 truck stops"
    assert check_certificate(certificate).startswith(told)
    for change in set(CHANGES) - {"coarser steps", "a cheaper one that is none", "another version"}:
        with pytest.raises(Refused):
            check_certificate(changed(certificate, CHANGES[change]))
    half = changed(certificate, lambda file: file["plan"].update(above_least=0.5))
    assert "at most $0.5000 more" in check_certificate(half)
    with pytest.raises(Refused):
        check_certificate(changed(certificate, lambda file: file["plan"].update(above_least=0.52)))


def test_a_certificate_for_a_thousand_miles_is_small() -> None:
    rng = random.Random("a thousand miles")
    stations = [
        Candidate(f"BM-TX-{number:04d}", mile, 0.4, 0.4, round(rng.gauss(3.6, 0.2), 3))
        for number, mile in enumerate(sorted(round(rng.uniform(0, 1000), 2) for _ in range(250)))
    ]
    road = replace(trip(), distance_miles=1000.0, usable_gallons=190.0, min_purchase_gallons=30.0, stop_cost=20.0)
    certificate = certified(replace(road, mpg=6.1, candidates=tuple(stations)))

    check_certificate(certificate)
    assert len(certificate) < 100_000
