"""Work that does not move: the alerts that `fuelroute queues` shows, and steps that no alert watches."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import open_session
from domain.database.fence import is_at_work
from domain.database.options import COMMANDING
from domain.database.statements import Statement
from domain.ids import shown_id
from domain.needs import overdue
from domain.needs.figures import FIGURES, Figure
from domain.operations.alerts import find_alerts
from domain.operations.doctor.checks import Examined, Finding, problem
from domain.operations.measurements import measure, takes_changes

LATE = timedelta(minutes=10)


def check_alerts(seen: Examined) -> Iterator[Finding]:
    """The alerts as findings: urgent ones are problems, the others warnings."""
    measured = measure(seen.connection, seen.client, now=seen.now)
    with open_session(seen.settings.require_direct_url(), COMMANDING, autocommit=True) as session:
        measured = measured._replace(takes_changes=takes_changes(session))  # the doctor's own session takes none
    for alert in find_alerts(measured, now=seen.now):
        figure = next((one for one in FIGURES.values() if alert.path == one.path), None)
        examples = _rows_behind(seen, figure) if figure is not None else ()
        yield Finding(alert.is_urgent, alert.what, alert.what_to_do, examples)


def _rows_behind(seen: Examined, figure: Figure) -> tuple[str, ...]:
    rows = overdue.rows(seen.connection, figure.name, limit=seen.most_examples, now=seen.now)
    return tuple(overdue.shown_row_id(figure.name, row) for row in rows)


class _Late(NamedTuple):
    id: UUID
    rows: int


_LATE_REVIEWS = Statement(
    _Late,
    f"SELECT id, count(*) OVER () AS rows FROM routes WHERE review_at < %s AND {is_at_work('routes.company_id')}"
    " ORDER BY review_at, id LIMIT %s",
)
_LATE_TRUCKS = Statement(
    _Late,
    "SELECT vehicle_id AS id, count(*) OVER () AS rows FROM tracks"
    f" WHERE unprocessed_from IS NOT NULL AND unprocessed_since < %s AND {is_at_work('tracks.company_id')}"
    " ORDER BY unprocessed_since, vehicle_id LIMIT %s",
)


def check_steps(seen: Examined) -> Iterator[Finding]:
    """Reviews of plans and positions of trucks that should have been processed long ago."""
    late: datetime = seen.now - LATE
    reviews = _LATE_REVIEWS.all(seen.connection, (late, seen.most_examples))
    if reviews:
        yield problem(
            f"Reviews of plans are more than 10 minutes late: {reviews[0].rows:,}",
            "Check the queue plans and its dead letters: fuelroute queues",
            tuple(shown_id("rte", row.id) for row in reviews),
        )
    trucks = _LATE_TRUCKS.all(seen.connection, (late, seen.most_examples))
    if trucks:
        yield problem(
            f"Positions of trucks have waited more than 10 minutes to be processed: {trucks[0].rows:,} trucks",
            "Check the queue arrivals and its dead letters: fuelroute queues",
            tuple(shown_id("veh", row.id) for row in trucks),
        )
