"""The texts of notices: plain, short enough for a text message, and each leads to its page."""

from datetime import datetime
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from domain.notices.kinds import NeedWords
from domain.routes.reading.overview import MOST_OF_A_NEED, Need
from domain.text import printable

_NAMED = 3
"""So many routes are named; the page has the others."""

_LONGEST_EXTERNAL_ID = 40
_LONGEST_ALERT = 200

Part = Literal["beginning", "end", "test"]


class Urgent(NamedTuple):
    """A need without routes: what the page Queues says of the first alert of a kind, or the first price file that is
    late, and how many more there are."""

    what: str
    what_to_do: str
    path: str
    more: int


def beginning_text(words: NeedWords, need: Need | Urgent | None, *, company: str, console: str) -> str:
    """The text that a need began. Its first line is the title. `need` has the routes, where there are any."""
    if isinstance(need, Urgent):
        more = f" And {need.more} more." if need.more else ""
        what, what_to_do = _short(need.what, _LONGEST_ALERT), _short(need.what_to_do, _LONGEST_ALERT)
        return f"{_of_company(company)}: {what}\n{what_to_do}.{more}\n{console}{need.path}"
    if need is None:
        return f"{_of_company(company)}: {words.label[:1].lower()}{words.label[1:]}\n{console}{words.path}"
    count = f"{need.routes:,}{'+' if need.routes == MOST_OF_A_NEED else ''}"
    names = ", ".join(_short(route.external_id) for route in need.named[:_NAMED])
    which = names if need.routes <= _NAMED else f"{names} and {need.routes - min(_NAMED, len(need.named)):,} more"
    said = words.one if need.routes == 1 else words.several
    return f"{_of_company(company)}: {count} {said}\n{which}\n{console}{words.path}"


def end_text(words: NeedWords, opened_at: datetime, *, company: str, console: str, time_zone: str) -> str:
    """The text that a need ended, with the time of its beginning by the person's clock."""
    since = opened_at.astimezone(ZoneInfo(time_zone)).strftime("%b %-d, %H:%M %Z")
    return f"{_of_company(company)}: over. {words.ended}\nIt began {since}.\n{console}{words.path}"


def text_of_test(name: str, *, company: str, address: str) -> str:
    """The text that a person asks for, to see that the channel works. `address` leads to the subscriptions."""
    return f'{_of_company(company)}: a test of "{name}"\nNotices of Fuelroute arrive here.\n{address}'


def _of_company(name: str) -> str:
    return printable(name)[:60]


def _short(text: str, longest: int = _LONGEST_EXTERNAL_ID) -> str:
    shown = printable(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
