"""The texts of notices: plain, short enough for a text message, each with a link to its page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from domain.lifecycle import AnswerKind
from domain.needs.need import Need, Summary
from domain.needs.route_needs import MOST_OF_A_NEED, RoutesInNeed
from domain.savings.statement_figures import SavingsStatement
from domain.savings.statement_pdf import month_in_words
from domain.text import printable
from domain.wording import counted, dollars_in_words

_NAMED = 3
"""Most routes named in a text; the page has the others."""

NEWEST_NAMED = 3
"""Most answers of drivers named in a text."""

_LONGEST_EXTERNAL_ID = 40
_LONGEST_ALERT = 200

_DOES = {AnswerKind.GOING: "goes to", AnswerKind.FUELED: "has fueled at", AnswerKind.REFUSED: "cannot fuel at"}

Part = Literal["beginning", "end", "test"]


def beginning_text(found: RoutesInNeed | Summary, *, company: str, console: str) -> str:
    """The text about the beginning of a need. Its first line is the title."""
    if isinstance(found, Summary):
        what, detail, path = _short(found.what, _LONGEST_ALERT), _what_to_do(found), found.path
    else:
        what, detail, path = _count(found), _names(found), found.need.path
    return "\n".join(filter(None, (f"{_of_company(company)}: {what}", detail, f"{console}{path}")))


def _what_to_do(found: Summary) -> str:
    more = f" And {found.more} more." if found.more else ""
    return f"{_short(found.what_to_do, _LONGEST_ALERT)}.{more}" if found.what_to_do else ""


def _count(found: RoutesInNeed) -> str:
    count = f"{found.routes:,}{'+' if found.routes == MOST_OF_A_NEED else ''}"
    return f"{count} {found.need.one if found.routes == 1 else found.need.several}"


def _names(found: RoutesInNeed) -> str:
    names = ", ".join(_short(route.external_id) for route in found.named[:_NAMED])
    more = found.routes - min(_NAMED, len(found.named))
    return f"{names} and {more:,} more" if found.routes > _NAMED else names


def end_text(need: Need, opened_at: datetime, *, company: str, console: str, time_zone: str) -> str:
    """The text about the end of a need, with the time of its beginning by the person's clock."""
    since = opened_at.astimezone(ZoneInfo(time_zone)).strftime("%b %-d, %H:%M %Z")
    return f"{_of_company(company)}: over. {need.ended}\nIt began {since}.\n{console}{need.path}"


def text_of_test(name: str, *, company: str, address: str) -> str:
    """The text of a test, by which a person sees that the channel works. `address` leads to the subscriptions."""
    return f'{_of_company(company)}: a test of "{name}"\nNotices of Fuelroute arrive here.\n{address}'


def text_of_statement(statement: SavingsStatement, *, address: str) -> str:
    """The text about a statement of savings. Its first line is the title."""
    figures = statement.sums.figures
    proven = f", {dollars_in_words(figures.proven)} proven by fuel cards" if figures.with_fills else ""
    saved = f"{dollars_in_words(figures.saved)} saved as planned by {counted(figures.plans, 'plan')}{proven}."
    title = f"{_of_company(statement.company)}: statement of fuel savings, {month_in_words(statement.month)}"
    return f"{title}\n{saved}\n{address}"


class AnswerInText(NamedTuple):
    """A driver's answer to a fuel stop, by its load: a text leaves the service and names no driver."""

    external_id: str
    kind: AnswerKind
    place: str


def text_of_answers(newest: Sequence[AnswerInText], answers: int, *, company: str, address: str) -> str:
    """The text about `answers` of drivers, of which it names the newest. Its first line is the title."""
    lines = [f"{_short(one.external_id)}: {_DOES[one.kind]} {_short(one.place)}" for one in newest]
    more = [f"And {answers - len(newest):,} more."] if answers > len(newest) else []
    title = f"{_of_company(company)}: {counted(answers, 'answer')} of drivers to their fuel stops"
    return "\n".join([title, *lines, *more, address])


def _of_company(name: str) -> str:
    return printable(name)[:60]


def _short(text: str, longest: int = _LONGEST_EXTERNAL_ID) -> str:
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
