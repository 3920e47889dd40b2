"""The days that the page of a report shows: those in its address, or this month by the reader's clock."""

from datetime import date
from zoneinfo import ZoneInfo

from domain.savings.spans import Span, UnusableSpan, month_of
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


def today_of(page: Page) -> date:
    return page.now.astimezone(ZoneInfo(page.session.time_zone)).date()


def _day(page: Page, name: str) -> date | None:
    text = page.form.text(name)
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise Refused(400, "This is no date", f"Go back and correct the day in “{name}”.") from None
