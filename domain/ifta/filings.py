"""Quarters that a person marked as filed: their reports are frozen, and what changes afterwards is told beside them.

A return that was filed is amended on the form of its own quarter, at that quarter's rates and with its whole figures by
state (README). So the changes are told by state, and a person decides. The legs of the filed
report are kept, because the same leg would be split over the states a little otherwise once retention has deleted the
line of its plan: a leg with the same mark has not changed."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from domain.accounts.companies import lock_company, require_company
from domain.audit.entries import Action, Actor, NoReason, audit_subject, record_action
from domain.database.connections import Connection, as_json
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.encoding import write
from domain.errors import FuelrouteError
from domain.ids import new_id
from domain.ifta.driven_routes import QuarterRoutes, find_quarter_routes
from domain.ifta.legs import DrivenLeg
from domain.ifta.quarters import Quarter
from domain.ifta.report import REPORT_DECIMALS, QuarterReport, StateLine, make_quarter_report

_MOST_MILES, _MOST_GALLONS, _MOST_TAX_DOLLARS = 10.0, 5.0, 1.0
"""A person is needed where a state differs by more than one of these."""
COMPARED_EVERY = timedelta(days=1)
KEPT_FOR = timedelta(days=4 * 366)
"""Carriers keep the records of a return for four years from the day on which it was due or filed, whichever is later;
later changes are told that long."""


class NotFiled(FuelrouteError):
    """A quarter cannot be filed, or is not filed. The text says why."""


class StateChange(NamedTuple):
    """The difference of a state since its quarter was filed. A tax of None is not known now; one that was not known
    when the quarter was filed counts as none."""

    state: str
    miles: float
    gallons_burned: float
    gallons_bought: float
    gallons_credited: float
    tax_credited_dollars: float | None

    @property
    def is_large(self) -> bool:
        gallons = max(abs(self.gallons_burned), abs(self.gallons_credited))
        tax = abs(self.tax_credited_dollars or 0.0)
        return abs(self.miles) > _MOST_MILES or gallons > _MOST_GALLONS or tax > _MOST_TAX_DOLLARS

    @property
    def in_words(self) -> str:
        """The amounts that differ: `TX +12.3 mi, +4.1 gal bought`."""
        named = (
            (self.miles, "mi"),
            (self.gallons_burned, "gal burned"),
            (self.gallons_bought, "gal bought"),
            (self.gallons_credited, "gal credited"),
        )
        parts = [f"{amount:+,.1f} {unit}" for amount, unit in named if round(amount, 1)]
        if tax := self.tax_credited_dollars:
            parts.append(f"{'-' if tax < 0 else '+'}${abs(tax):,.2f} tax")
        return f"{self.state} {', '.join(parts) or 'below 0.1'}"


class Filing(NamedTuple):
    """A filed quarter. `changes` is None before the first comparison."""

    id: UUID
    company_id: UUID
    quarter: str
    filed_at: datetime
    filed_by: str
    report: QuarterReport
    compared_at: datetime | None
    changes: list[StateChange] | None
    is_to_amend: bool


# --- Filing and reopening --------------------------------------------------------------------------------------

_STORE = Command(
    "INSERT INTO ifta_filings (id, company_id, quarter, filed_at, filed_by, report, legs)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
_REOPEN = Command(
    "UPDATE ifta_filings SET reopened_at = %s, is_to_amend = false"
    " WHERE company_id = %s AND quarter = %s AND reopened_at IS NULL"
)


def file_quarter(
    connection: Connection,
    driven: QuarterRoutes,
    by: Actor,
    *,
    now: datetime,
    progress: Callable[[int], object] = lambda _: None,
) -> None:
    """Mark a quarter as filed: its report is frozen as it is now. Raises NoReason, NotFiled for a quarter that is not
    over or is filed already, and RetiredCompany."""
    company_id, quarter = driven.tenant.company_id, str(driven.quarter)
    _require_reason(by)
    if now < driven.end:
        raise NotFiled(f"{quarter} is not over yet")
    require_company(connection, company_id)
    _require_open(connection, company_id, quarter)
    legs: list[DrivenLeg] = []
    report = make_quarter_report(connection, driven, now=now, progress=progress, note_legs=legs.extend)
    packed = zlib.compress(write([asdict(leg) for leg in legs]))
    document = as_json(msgspec.to_builtins(report))
    lock_company(connection, company_id)  # only now: a large fleet's report takes minutes, and imports wait for it
    _require_open(connection, company_id, quarter)
    _STORE.execute(connection, (new_id(), company_id, quarter, now, by.name, document, packed))
    record_action(connection, by, Action("ifta.file"), audit_subject("quarter", quarter), company_id=company_id)


def _require_open(connection: Connection, company_id: UUID, quarter: str) -> None:
    if _FIND.first(connection, (company_id, quarter)) is not None:
        raise NotFiled(f"{quarter} is filed already: reopen it first")


def reopen_quarter(connection: Connection, company_id: UUID, quarter: Quarter, by: Actor, *, now: datetime) -> None:
    """Take back that a quarter was filed: its report follows what is known again. Raises NoReason, NotFiled."""
    _require_reason(by)
    lock_company(connection, company_id)
    if not _REOPEN.execute(connection, (now, company_id, str(quarter))).rowcount:
        raise NotFiled(f"{quarter} is not filed")
    record_action(connection, by, Action("ifta.reopen"), audit_subject("quarter", str(quarter)), company_id=company_id)


def _require_reason(by: Actor) -> None:
    if not by.reason.strip():
        raise NoReason


# --- Reading ---------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    id: UUID
    company_id: UUID
    quarter: str
    filed_at: datetime
    filed_by: str
    report: NotNull[dict[str, Any]]
    compared_at: datetime | None
    changes: list[dict[str, Any]] | None
    is_to_amend: bool


_FIND = Statement(
    _Stored,
    "SELECT id, company_id, quarter, filed_at, filed_by, report, compared_at, changes, is_to_amend"
    " FROM ifta_filings WHERE company_id = %s AND quarter = %s AND reopened_at IS NULL",
)
_LEGS = Scalar(bytes, "SELECT legs FROM ifta_filings WHERE id = %s")


def read_filing(connection: Connection, company_id: UUID, quarter: Quarter) -> Filing | None:
    """The filing of a quarter; None for one that is not filed, or was reopened."""
    stored = _FIND.first(connection, (company_id, str(quarter)))
    if stored is None:
        return None
    changes = [StateChange(**one) for one in stored.changes] if stored.changes is not None else None
    report = msgspec.convert(stored.report, QuarterReport)
    return Filing(**{**stored._asdict(), "report": report, "changes": changes})


# --- Comparing -------------------------------------------------------------------------------------------------


class DueFiling(NamedTuple):
    company_id: UUID
    quarter: str


_DUE = Statement(
    DueFiling,
    "SELECT company_id, quarter FROM ifta_filings f WHERE reopened_at IS NULL AND filed_at > %(since)s"
    f" AND (compared_at IS NULL OR compared_at < %(before)s) AND {is_at_work('f.company_id')}"
    " ORDER BY random(), id LIMIT %(limit)s",
)
"""In any order: one that takes minutes, or fails each time, does not always come before the others."""
_NOTE = Command("UPDATE ifta_filings SET compared_at = %s, changes = %s, is_to_amend = %s WHERE id = %s")
_NOTE_SEEN = Command("UPDATE ifta_filings SET compared_at = %s WHERE id = %s")
_ROUTES_LEFT = Scalar(NotNull[int], "SELECT count(*)::int FROM routes WHERE company_id = %s AND id = ANY(%s)")


def due_filings(connection: Connection, *, now: datetime, limit: int) -> list[DueFiling]:
    """Filed quarters that were not compared for more than a day."""
    return _DUE.all(connection, {"since": now - KEPT_FOR, "before": now - COMPARED_EVERY, "limit": limit})


def compare_filing(
    connection: Connection, company_id: UUID, quarter: Quarter, *, fills_kept_days: float | None, now: datetime
) -> list[StateChange] | None:
    """Compare a filed quarter with what is known now, and store the changes. None where the quarter is not filed,
    or where retention has deleted routes or fills of it: the changes told before stay."""
    filing = read_filing(connection, company_id, quarter)
    if filing is None:
        return None
    legs = _filed_legs(connection, filing.id)
    driven = find_quarter_routes(connection, company_id, quarter)
    if _has_forgotten(connection, driven, legs, fills_kept_days, now):
        _NOTE_SEEN.execute(connection, (now, filing.id))
        return None
    report = make_quarter_report(connection, driven, now=now, filed=legs)
    changes = state_changes(filing.report.states, report.states)
    is_to_amend = any(one.is_large for one in changes)
    _NOTE.execute(connection, (now, as_json([one._asdict() for one in changes]), is_to_amend, filing.id))
    return changes


def _filed_legs(connection: Connection, filing_id: UUID) -> Mapping[str, DrivenLeg]:
    stored = zlib.decompress(_LEGS.one(connection, (filing_id,)))
    return {leg.mark: leg for leg in msgspec.json.decode(stored, type=list[DrivenLeg])}


def _has_forgotten(
    connection: Connection,
    driven: QuarterRoutes,
    legs: Mapping[str, DrivenLeg],
    fills_kept_days: float | None,
    now: datetime,
) -> bool:
    """Tell if retention has deleted routes or fills of the quarter, so that it cannot be compared."""
    if fills_kept_days is not None and driven.start < now - timedelta(days=fills_kept_days):
        return True
    route_ids = list({UUID(mark.partition(" ")[0]) for mark in legs})
    return _ROUTES_LEFT.one(connection, (driven.tenant.company_id, route_ids)) < len(route_ids)


def state_changes(filed: Sequence[StateLine], now: Sequence[StateLine]) -> list[StateChange]:
    """The states that differ, with what they have now less what was filed."""
    before, after = ({line.state: line for line in lines} for lines in (filed, now))
    found = [
        _state_change(state, before.get(state), after.get(state)) for state in sorted(before.keys() | after.keys())
    ]
    return [one for one in found if any(one[1:])]


_AMOUNTS = ("miles", "gallons_burned", "gallons_bought", "gallons_credited")


def _state_change(state: str, before: StateLine | None, after: StateLine | None) -> StateChange:
    def difference(name: str) -> float:
        then, now = (getattr(line, name) if line is not None else 0.0 for line in (before, after))
        return round(now - then, REPORT_DECIMALS)

    then, now = (line.tax_credited_dollars if line is not None else 0.0 for line in (before, after))
    tax = None if now is None else round(now - (then or 0.0), REPORT_DECIMALS)
    miles, burned, bought, credited = map(difference, _AMOUNTS)
    return StateChange(state, miles, burned, bought, credited, tax)
