"""Compliance as rows of CSV files and JSON documents. All amounts are in dollars."""

from typing import Any

from domain.compliance.report import ComparedStop, ComplianceBy, ComplianceLine
from domain.encoding import utc_text
from domain.ids import shown_id

_FIGURES = (
    *("stops", "followed", "partly", "missed", "refused", "unknown", "followed_percent", "answered"),
    *("refusals_with_new_plan", "refusals_cost"),
)
COMPLIANCE_COLUMNS: dict[str, tuple[str, ...]] = {
    ComplianceBy.CHAIN: ("chain", *_FIGURES),
    ComplianceBy.REASON: ("reason", *_FIGURES),
    ComplianceBy.CHOICE: ("choice", *_FIGURES),
    ComplianceBy.DRIVER: ("driver_id", "name", *_FIGURES),
    "stop": (
        *("route_id", "external_id", "at", "driver_id", "driver_name", "number", "place", "chain", "outcome", "proof"),
        *("answer", "reason", "refusal_cost"),
    ),
}
_OF_DRIVERS = ("driver_id", "driver_name")


def line_of_compliance(by: ComplianceBy, line: ComplianceLine) -> dict[str, Any]:
    names = (line.name,) if line.id is None else (shown_id("drv", line.id), line.name)
    figures = line.figures
    numbers = (figures.stops, *figures[:5], figures.followed_percent, figures.answered)
    return dict(zip(COMPLIANCE_COLUMNS[by], (*names, *numbers, line.priced, line.cents / 100), strict=True))


def columns_of_stops(*, with_drivers: bool) -> tuple[str, ...]:
    """The columns of stops, without those of drivers for people who may not see them."""
    return tuple(one for one in COMPLIANCE_COLUMNS["stop"] if with_drivers or one not in _OF_DRIVERS)


def row_of_stop(stop: ComparedStop, *, with_drivers: bool) -> dict[str, Any]:
    values = (
        *(shown_id("rte", stop.route_id), stop.external_id, utc_text(stop.at), shown_id("drv", stop.driver_id)),
        *(stop.driver_name, stop.number, stop.place, stop.chain, stop.outcome, stop.proof, stop.answer, stop.reason),
        stop.priced_cents / 100 if stop.priced_cents is not None else None,
    )
    row = dict(zip(COMPLIANCE_COLUMNS["stop"], values, strict=True))
    return {name: row[name] for name in columns_of_stops(with_drivers=with_drivers)}
