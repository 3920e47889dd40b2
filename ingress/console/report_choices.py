"""The choices in the address of a report's page: its days, or this month by the reader's clock. And whether the reader
may see drivers in it."""

from collections.abc import Iterable
from datetime import date, timedelta
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from domain.accounts.users import MAY_SEE_DRIVERS_COMPLIANCE
from domain.savings.spans import Span, UnusableSpan, month_of, quarter_of
from domain.wording import sentence
from ingress.console.refusals import Refused
from ingress.console.signed_in import Page


def span_of(page: Page) -> Span:
    """The days of the report. Raises Refused for days that cannot be reported."""
    zone = page.session.time_zone
    month = month_of(today_of(page), zone)
    try:
        return Span(_day(page, "from") or month.first_day, _day(page, "to") or month.last_day, zone)
    except UnusableSpan as error:
        text = str(error)
        raise Refused(400, "These days cannot be reported", sentence(text)) from None


def named_spans(page: Page) -> list[tuple[str, Span]]:
    """The spans that people choose by their names: months and quarters."""
    today, zone, day = today_of(page), page.session.time_zone, timedelta(days=1)
    month, quarter = month_of(today, zone), quarter_of(today, zone)
    return [
        ("This month", month),
        ("Last month", month_of(month.first_day - day, zone)),
        ("This quarter", quarter),
        ("Last quarter", quarter_of(quarter.first_day - day, zone)),
    ]


def sees_drivers(page: Page) -> bool:
    """True for a person who may see what a driver did at the fuel stops of his plans."""
    return page.session.role in MAY_SEE_DRIVERS_COMPLIANCE


def drivers_hidden() -> Refused:
    return Refused(403, "You may not see this", "Drivers are shown to dispatchers and owners. Choose another list.")


def address_with(shown: Page, path: str, kept: Iterable[str], **changes: object) -> str:
    """The address of the present page with changes. `kept` names its fields that stay; a change of None removes one."""
    fields = {name: shown.form.secret(name) for name in kept} | changes
    return f"{path}?{urlencode({name: value for name, value in fields.items() if value not in ('', None)})}"


def today_of(page: Page) -> date:
    return page.now.astimezone(ZoneInfo(page.session.time_zone)).date()


def _day(page: Page, name: str) -> date | None:
    text = page.form.text(name)
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise Refused(400, "This is no date", f"Go back and correct the day in “{name}”.") from None
