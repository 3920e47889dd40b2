"""Reports on a span of days: their options, their JSON documents, their CSV files."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from uuid import UUID

import typer

from deploy.cli.failures import CommandFailed
from domain.ids import shown_id
from domain.savings.spans import Span

if TYPE_CHECKING:
    from domain.database.connections import Connection, Tenant

FirstDay = Annotated[datetime, typer.Option("--from", formats=["%Y-%m-%d"], help="The first day.")]
LastDay = Annotated[datetime, typer.Option("--to", formats=["%Y-%m-%d"], help="The last day, included.")]
LinesFile = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the lines to a CSV file.")]


def span_between(connection: "Connection", company_id: UUID, first_day: datetime, last_day: datetime) -> Span:
    """The days in the company's time zone. Raises UnknownCompany, UnusableSpan."""
    from domain.accounts.companies import time_zone_of  # loads psycopg, which the help of a command does not need

    return Span(first_day.date(), last_day.date(), time_zone_of(connection, company_id))


def report_document(tenant: "Tenant", span: Span, by: str, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "company_id": shown_id("cmp", tenant.company_id),
        "environment": tenant.environment,
        "from": span.first_day,
        "to": span.last_day,
        "time_zone": span.time_zone,
        "by": by,
        "lines": lines,
    }


def write_file(file: Path | None, write: Callable[[TextIO], object]) -> None:
    """Writes a CSV file, where one is wanted. Raises CommandFailed."""
    if file is None:
        return
    try:
        with file.open("w", newline="", encoding="utf-8") as lines:
            write(lines)
    except OSError as error:
        raise CommandFailed(f"cannot write {file}: {error.strerror}") from None
