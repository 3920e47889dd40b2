"""A plan's explanation for people: the inputs and their sources, every candidate and why, the alternatives."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table

from domain.lifecycle import ChoiceKind
from domain.planning.explanation import (
    ExplainedInputs,
    ExplainedVersion,
    FuelOrigin,
    OfferedChoice,
    PriceOrigin,
    RouteExplanation,
)
from domain.planning.reasons import CHOSEN
from domain.planning.road_notes import road_in_words
from domain.planning.ways_out import way_out_in_words
from domain.text import printable
from domain.wording import counted, dollars_in_words


def print_explanation(explanation: RouteExplanation, screen: Console) -> None:
    facts = Table(box=None, pad_edge=False)
    for heading in ("input", "value", "from"):
        facts.add_column(heading, justify="right" if heading == "value" else "left")
    for row in _facts(explanation):
        facts.add_row(*map(printable, row))
    screen.print(facts, highlight=False, markup=False)
    screen.print(_candidates(explanation), highlight=False, markup=False)
    for one in explanation["candidates"]:
        if "way_out" in one:
            way_out = way_out_in_words(one["way_out"])
            screen.print(f"{printable(one['name'])}, {printable(way_out)}", highlight=False, markup=False)
    _print_result(explanation, screen)
    if explanation["menu"]:
        screen.print(_menu(explanation["menu"]), highlight=False, markup=False)
    if len(explanation["versions"]) > 1:
        screen.print(_versions(explanation["versions"]), highlight=False, markup=False)


def _menu(choices: Sequence[OfferedChoice]) -> Table:
    """A table of what the driver may choose in place of the plan."""
    table = Table(title="the driver may choose", box=None, pad_edge=False)
    for heading in ("choice", "stops", "cost", "costs more", "at the pumps", "status"):
        table.add_column(heading, justify="left" if heading in ("choice", "status") else "right")
    for one in choices:
        reason = f": {one['reason']}" if one["reason"] else ""
        table.add_row(
            printable(one["text"].rsplit(", ", 1)[0]),
            str(len(one["station_ids"])),
            dollars_in_words(one["total_cost"]),
            dollars_in_words(one["extra_cost"]),
            dollars_in_words(one["extra_at_pumps"]),
            printable(f"{one['status']}{reason}"),
        )
    return table


def _versions(versions: Sequence[ExplainedVersion]) -> Table:
    """A table of the plans that were made, if there were several."""
    table = Table(title="plans of this route", box=None, pad_edge=False)
    for heading in ("made of", "because", "stops", "cost", "the driver"):
        table.add_column(heading, justify="right" if heading in ("stops", "cost") else "left")
    for number, one in enumerate(versions):
        feasible = one["total_cost"] is not None
        table.add_row(
            _moment(one["as_of"] or one["generated_at"]),
            printable(one["cause"]["text"]) if one["cause"] is not None else "the truck arrived",
            str(one["fuel_stops"]) if feasible else "",
            f"${one['total_cost']:.2f}" if feasible else "none is feasible",
            ("has it" if one["current"] else "had it") if one["told"] else "was not told" if number else "",
            style="bold green" if one["current"] else None,
        )
    return table


def _facts(explanation: RouteExplanation) -> Iterator[tuple[str, str, str]]:
    inputs, sources = explanation["inputs"], explanation["sources"]
    fuel, position, prices = sources["fuel"], sources["position"], sources["prices"]
    road = road_in_words(sources["roads"])
    made_at = sources["made_at"]
    policy = "the company's policy"
    relaxed_limits = {one["limit"]: one["policy"] for one in explanation["relaxed"]}

    def limit(name: str) -> str:
        return f"relaxed; {policy} is {relaxed_limits[name]:g}" if name in relaxed_limits else policy

    yield (
        "road",
        f"{inputs['distance_miles']:,.1f} mi",
        road.credit,
    )
    if explanation["ends_early"] is not None:
        yield "all the way", f"{inputs['road_miles']:,.1f} mi", explanation["ends_early"]
    if road.truck is not None:
        yield "truck", road.truck, road.truck_note
    for second_way in road.second_ways:
        yield "not the only way", "", second_way
    yield "starts at", _moment(sources["departure"]), f"{position['source']}{_age(position['at'], made_at)}"
    yield "tank", f"{inputs['capacity_gallons']:,.1f} gal", sources["capacity_gallons"]["source"]
    yield "usable of it", f"{inputs['usable_gallons']:,.1f} gal", "95 %"
    yield "mileage", f"{inputs['mpg']:.2f} mpg", f"{sources['mpg']['source']}{_learned_from(inputs)}"
    yield (
        "fuel at the start",
        f"{inputs['start_gallons']:,.1f} gal",
        f"{fuel['source']}, {fuel['percent']:g} %{_age(fuel['at'], made_at)}{_expected(fuel)}",
    )
    yield from _reserves(inputs, relaxed_limits, limit)
    error = explanation.get("mileage_error")
    if error is not None:
        since = "the stop before" if error["by_level"] else "the start"
        kept = f"{error['margin_percent']:g} % of the gallons since {since}"
        why = "it costs little" if error.get("beyond_policy") else policy
        yield "kept beyond it", kept, f"{why}: {error['share_percent']:g} % of trips may fall below the reserve"
    if "highest_floor_gallons" in relaxed_limits:
        lowered = next(one["used"] for one in explanation["relaxed"] if one["limit"] == "highest_floor_gallons")
        yield "of that at most", f"{lowered:,.1f} gal in all", "relaxed, so that the truck reaches fuel"
    if "hard_floor_gallons" in inputs:
        hard_floor = f"{inputs['hard_floor_gallons']:,.1f} gal"
        yield "hard floor", hard_floor, "left at another station if a fuel stop is closed, where there is one"
    yield "wanted at the end", f"{inputs['end_gallons']:,.1f} gal", limit("end_gallons")
    yield "smallest purchase", f"{inputs['min_purchase_gallons']:,.1f} gal", limit("min_purchase_gallons")
    yield "cost of a stop", f"${inputs['stop_cost']:.2f}", policy
    yield "furthest detour", f"{inputs['max_detour_miles']:g} mi", limit("max_detour_miles")
    choice = explanation.get("choice")
    by = (
        "the driver's choice" if choice is not None and choice["kind"] == ChoiceKind.FEWER_STOPS else limit("max_stops")
    )
    yield "most stops", "any" if inputs["max_stops"] is None else str(inputs["max_stops"]), by
    if choice is not None:
        cheapest = f"${choice['cheapest_cost']:.2f} at the pumps without it"
        yield "chosen", choice["kind"].replace("_", " "), f"costs ${choice['extra_cost']:.2f} more; {cheapest}"
    if inputs["leftover_value_per_gallon"]:
        yield "fuel left is worth", f"${inputs['leftover_value_per_gallon']:.3f}", policy
    yield "objective", inputs["objective"], policy
    yield "prices", counted(explanation["candidates_total"], "candidate"), _priced(prices, made_at)
    for closed in prices.get("closed", []):
        why = "refused by the driver" if closed.get("refused") else "closed"
        yield why, f"mile {closed['mile']:.1f}", f"{closed['name']}, until {_moment(closed['closed_until'])}"


def _learned_from(inputs: ExplainedInputs) -> str:
    """The figure in whose place the mileage stands, and the trips that it was learned from."""
    burn = inputs.get("burn")
    if burn is None or burn["kind"] not in ("learned", "measured"):
        return ""
    instead = f", instead of {burn['instead_of_mpg']:g} mpg" if "instead_of_mpg" in burn else ""
    trips = ", ".join(f"{trip['route_id']} ({trip['ended_at'][:10]})" for trip in burn.get("trips", ()))
    return f"{instead}: {trips}" if trips and burn["kind"] == "learned" else instead


def _reserves(
    inputs: ExplainedInputs, relaxed_limits: Collection[str], limit: Callable[[str], str]
) -> Iterator[tuple[str, str, str]]:
    """The reserve, and what is kept in its place until the first purchase. Plans of earlier versions kept a margin
    there."""
    reserve, margin = inputs["reserve_gallons"], inputs["margin_gallons"]
    if margin < 0:
        yield "until the first stop", f"{reserve + margin:,.1f} gal", limit("reserve_gallons")
    is_later = margin < 0 or "later_reserve_gallons" in relaxed_limits
    yield "reserve", f"{reserve:,.1f} gal", limit("later_reserve_gallons" if is_later else "reserve_gallons")
    if margin > 0 or "margin_gallons" in relaxed_limits:
        yield "margin beyond it", f"{margin:,.1f} gal", f"{limit('margin_gallons')}; kept until the first purchase"


def _expected(fuel: FuelOrigin) -> str:
    """The difference between a reading and the level expected by the miles since an earlier one; empty below 1 %."""
    return _expected_there(fuel) + _burned_since(fuel) + _doubted(fuel)


def _burned_since(fuel: FuelOrigin) -> str:
    burned = fuel.get("burned_percent", 0.0)
    return f", less {burned:g} % for {fuel['burned_miles']:g} mi since" if burned else ""


def _doubted(fuel: FuelOrigin) -> str:
    doubted = fuel.get("doubted_percent")
    return f"; a reading of {doubted:g} % waits for a second one" if doubted is not None else ""


def _expected_there(fuel: FuelOrigin) -> str:
    off = fuel.get("off_percent", 0.0)
    if abs(off) < 1:
        return ""
    than = f"{abs(off):g} % {'more' if off > 0 else 'less'} than expected after {fuel['miles_since']:g} mi"
    return f", {than}" if fuel["believed"] else f": not believed, it is {than}"


def _priced(prices: PriceOrigin, made_at: str) -> str:
    imported_at, oldest_at = prices["imported_at"], prices["oldest_at"]
    parts = ["never imported" if imported_at is None else f"imported {_since(imported_at, made_at)} before"]
    if oldest_at is not None:
        parts.append(f"the oldest {_since(oldest_at, made_at)} old")
    parts += [
        f"{counted(count, 'station')} left out: {why.replace('_', ' ')}"
        for why, count in prices["stations_left_out"].items()
    ]
    if prices["stations_without_tax_rate"]:
        parts.append(f"{counted(prices['stations_without_tax_rate'], 'station')} without a tax rate")
    return ", ".join(parts)


def _age(at: str | None, made_at: str) -> str:
    return "" if at is None else f", {_since(at, made_at)} old"


def _since(at: str, made_at: str) -> str:
    """The time from one moment to the making of the plan, in words."""
    age = max(datetime.fromisoformat(made_at) - datetime.fromisoformat(at), timedelta(0))
    minutes = int(age / timedelta(minutes=1))
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def _moment(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}Z"


def _candidates(explanation: RouteExplanation) -> Table:
    candidates, total = explanation["candidates"], explanation["candidates_total"]
    shown = f"{len(candidates)} of " if len(candidates) < total else ""
    table = Table(title=f"{shown}{counted(total, 'candidate')} in the corridor", box=None, pad_edge=False)
    for heading in ("mile", "id", "station", "net $", "adjusted $", "detour mi", "gallons", "why", "costs more"):
        table.add_column(heading, justify="left" if heading in ("id", "station", "why") else "right", no_wrap=True)
    for one in candidates:
        chosen = one["why"] == CHOSEN
        table.add_row(
            f"{one['mile']:.1f}",
            printable(one["station_id"]),
            printable(", ".join(filter(None, (one["name"], one["state"])))),
            f"{one['net_price']:.3f}",
            f"{one['adjusted_price']:.3f}",
            f"{one['detour_miles_in']:.1f}+{one['detour_miles_out']:.1f}",
            f"{one['gallons']:.1f}" if chosen else "",
            printable(f"{one['why']}: {one['detail']}"),
            "" if chosen or one["extra_cost"] is None else f"${one['extra_cost']:.2f}",
            style="bold green" if chosen else None,
        )
    return table


def _print_result(explanation: RouteExplanation, screen: Console) -> None:
    failed = explanation["infeasible"]
    if failed is not None:
        reason = printable(failed["reason"])
        screen.print(
            f"no feasible plan, mile {failed['from_mile']:.1f} to {failed['to_mile']:.1f}: {reason}",
            style="red",
            markup=False,
            highlight=False,
        )
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("way of fueling", "$ for fuel and stops", "less leftover", "stops", "gallons", "gallons left"):
        table.add_column(heading, justify="left" if heading == "way of fueling" else "right")
    for one in explanation["alternatives"]:
        dry = one["objective"] is None
        table.add_row(
            one["name"],
            "runs dry" if dry else f"{one['objective']:.2f}",
            "" if dry else f"{one['objective_less_leftover']:.2f}",
            str(one["stops"]),
            f"{one['gallons']:.1f}",
            "" if dry else f"{one['left_gallons']:.1f}",
        )
    screen.print(table, highlight=False)
    screen.print(f"objective: ${explanation['objective']:.2f} for fuel and stops", highlight=False)
