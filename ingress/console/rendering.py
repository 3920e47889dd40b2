"""The rendering of pages from Jinja2 templates. Every value in them is escaped, so a pushed text is never markup."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from domain.audit.entries import action_in_words
from domain.ids import shown_id
from domain.languages.words import purchase_in_words
from domain.planning.ways_out import way_out_in_words
from domain.wording import counted
from ingress.console.empty_lists import EMPTY_LISTS

STATIC = Path(__file__).parent / "static"

STATUS_WORDS = {
    "pending": "being imported",
    "pending_mapping": "held: not matched",
    "pending_window": "held: starts beyond the import window",
}
"""Words for people in place of the API's names of statuses; the other statuses are words already."""

REASON_WORDS = {
    "vehicle_unmapped": "vehicle not matched",
    "driver_unmapped": "driver not matched",
    "outside_import_window": "starts beyond the import window",
    "not_attempted": "import not tried yet",
    "error": "import failed, tried again",
}
"""Words for people for the reasons why a route is held."""


MESSAGE_WORDS = {"pending": "waiting to be sent", "suppressed": "not sent"}
"""Words for people for the statuses of a message."""

LIMIT_WORDS = {
    "end_gallons": "gallons at the destination",
    "min_purchase_gallons": "smallest purchase in gallons",
    "max_stops": "most fuel stops",
    "max_detour_miles": "longest detour in miles",
    "highest_floor_gallons": "highest floor in gallons",
    "margin_gallons": "margin in gallons",
    "reserve_gallons": "reserve in gallons until the first purchase",
    "later_reserve_gallons": "reserve in gallons from the first purchase on",
}
"""Words for people for the limits of a plan that may be relaxed."""


def state_words(status: str, reason: str | None = None) -> str:
    """The status of a route, and what holds it: `held: vehicle not matched`."""
    if status == "pending":
        return REASON_WORDS["error"] if reason == "error" else STATUS_WORDS["pending"]
    if reason in REASON_WORDS and status in STATUS_WORDS:
        return f"held: {REASON_WORDS[reason]}"
    return STATUS_WORDS.get(status, status)


_UNITS = (("day", "days", timedelta(days=1)), ("h", "h", timedelta(hours=1)), ("min", "min", timedelta(minutes=1)))


def relative(moment: datetime, now: datetime) -> str:
    """The distance between two times in words: `in 3 h`, `2 days ago`, `now` within a minute."""
    distance = abs(moment - now)
    for one, several, size in _UNITS:
        if distance >= size:
            length = counted(distance // size, one, several)
            return f"in {length}" if moment > now else f"{length} ago"
    return "now"


def when(moment: datetime, now: datetime, time_zone: str) -> Markup:
    """A time for people of the company: relative, and absolute in their zone."""
    return _time(moment, relative(moment, now), time_zone)


def happened(moment: datetime, now: datetime, time_zone: str) -> Markup:
    """A time of something that has happened, for people of the company. A simulated truck drives ahead of the clock:
    its times are not called future."""
    return _time(moment, "simulated:" if moment > now + timedelta(minutes=1) else relative(moment, now), time_zone)


def absolute(moment: datetime, time_zone: str) -> Markup:
    """A time within a sentence, after until or at: absolute in the company's zone."""
    return Markup('<time datetime="{}">{}</time>').format(moment.astimezone(UTC).isoformat(), _local(moment, time_zone))


def _time(moment: datetime, words: str, time_zone: str) -> Markup:
    return Markup('<time datetime="{}">{} <span class="absolute">{}</span></time>').format(
        moment.astimezone(UTC).isoformat(), words, _local(moment, time_zone)
    )


def _local(moment: datetime, time_zone: str) -> str:
    try:
        local = moment.astimezone(ZoneInfo(time_zone))
    except OverflowError:  # the first and the last day that there are
        local = moment.astimezone(UTC)
    return f"{local:%b %-d, %Y %H:%M %Z}"


@cache
def static_url(name: str) -> str:
    """The file's address. It changes with the file, so browsers may keep the file for ever."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def make_templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("ingress.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["moment"] = datetime.fromisoformat
    templates.filters["action_words"] = action_in_words
    templates.filters["pack"] = partial(quote, safe="")
    templates.filters["shown"] = lambda id, kind: shown_id(kind, id)
    templates.filters["status_words"] = templates.filters["state_words"] = state_words
    templates.filters["reason_words"] = lambda reason: REASON_WORDS.get(reason, str(reason))
    templates.filters["message_words"] = lambda status: MESSAGE_WORDS.get(status, str(status))
    templates.filters["limit_words"] = lambda limit: LIMIT_WORDS.get(limit, limit)
    templates.globals |= {
        "counted": counted,
        "empty_lists": EMPTY_LISTS,
        "purchase_in_words": purchase_in_words,
        "static_url": static_url,
        "way_out_in_words": way_out_in_words,
    }
    return templates
