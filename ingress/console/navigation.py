"""The navigation: every page that stands in it, in groups by work, with counts of what needs a person."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from domain.accounts.users import (
    EVERYBODY,
    MAY_EDIT_POLICY,
    MAY_MANAGE_KEYS,
    MAY_MANAGE_NOTICES,
    MAY_MANAGE_USERS,
    MAY_MATCH,
    MAY_OPERATE,
    MAY_SEE_REQUESTS,
)
from domain.lifecycle import Role
from domain.needs.company_needs import COMPANY_NEEDS


class Entry(NamedTuple):
    """A page in the navigation. `section` is what the page itself gives to its template."""

    section: str
    label: str
    path: str
    by: Collection[Role] = EVERYBODY
    """The roles that see it."""


GROUPS: Mapping[str, tuple[Entry, ...]] = {
    "Today": (
        Entry("overview", "Overview", "/overview"),
        Entry("map", "Map", "/map"),
        Entry("routes", "Routes", "/routes"),
        Entry("previews", "Preview a load", "/previews"),
        Entry("matching", "Matching", "/matching/vehicles"),
        Entry("import", "Import a file", "/import", MAY_MATCH),
        Entry("queues", "Queues", "/queues", MAY_OPERATE),
    ),
    "Fleet": (
        Entry("vehicles", "Vehicles", "/vehicles"),
        Entry("drivers", "Drivers", "/drivers"),
        Entry("mappings", "Mappings", "/mappings/vehicles"),
        Entry("connectors", "Connectors", "/connectors"),
    ),
    "Fuel": (
        Entry("stations", "Stations", "/stations"),
        Entry("prices", "Price files", "/prices", MAY_EDIT_POLICY),
        Entry("fills", "Fills", "/fills"),
    ),
    "Reports": (
        Entry("savings", "Savings", "/savings"),
        Entry("bought", "Planned against bought", "/bought"),
        Entry("compliance", "Compliance", "/compliance"),
        Entry("ifta", "IFTA", "/ifta"),
        Entry("replay", "Replay", "/replays"),
    ),
    "Settings": (
        Entry("policy", "Policy", "/policy"),
        Entry("users", "Users", "/users", MAY_MANAGE_USERS),
        Entry("notices", "Notices", "/notices", MAY_MANAGE_NOTICES),
        Entry("keys", "API keys", "/keys"),
        Entry("requests", "Requests", "/requests", MAY_SEE_REQUESTS),
        Entry("webhooks", "Webhooks", "/webhooks"),
        Entry("audit", "Audit log", "/audit", MAY_MANAGE_KEYS),
        Entry("companies", "Companies", "/companies", MAY_OPERATE),
    ),
}
"""A new page gets an entry here. Its address begins as that of the needs that it mends: they are counted beside it."""

_FIRST = "Today"
"""The group that is open until a person folds it."""


class ShownEntry(NamedTuple):
    label: str
    path: str
    is_current: bool
    cases: int


class ShownGroup(NamedTuple):
    name: str
    entries: list[ShownEntry]
    is_current: bool
    is_open: bool
    cases: int


def navigation_of(role: Role, section: str, needs: Mapping[str, int]) -> list[ShownGroup]:
    """The groups as a person of that role sees them. `needs` has the number of cases by the kind of the need."""
    by_place: dict[str, int] = {}
    for need in COMPANY_NEEDS:
        by_place[_place(need.path)] = by_place.get(_place(need.path), 0) + needs.get(need.kind, 0)
    groups = ((name, [one for one in entries if role in one.by]) for name, entries in GROUPS.items())
    return [_shown(name, entries, section, by_place) for name, entries in groups if entries]


def _place(path: str) -> str:
    """The first part of an address: `matching` of `/matching/drivers`."""
    return path.partition("?")[0].split("/")[1]


def _shown(name: str, entries: list[Entry], section: str, by_place: Mapping[str, int]) -> ShownGroup:
    counts = [by_place.get(_place(one.path), 0) for one in entries]
    shown = [
        ShownEntry(one.label, one.path, one.section == section, count)
        for one, count in zip(entries, counts, strict=True)
    ]
    is_current = any(one.is_current for one in shown)
    return ShownGroup(name, shown, is_current, is_current or name == _FIRST, sum(counts))


# --- The counts of all companies ---------------------------------------------------------------------------------

LONGEST_COUNT_MILLISECONDS = 250
"""The longest time that a page waits for the counts. It is shown without them then."""
_KEPT_SECONDS, _KEPT_TIMES = 10.0, 50
"""Counts are used for 10 seconds, or for 50 times the time that counting took."""
_SECONDS_AFTER_FAILURE = 60.0
_MOST_COMPANIES = 1_000


class NeedCounts:
    """The last counts of each company whose pages are looked at, so that a page rarely counts."""

    def __init__(self) -> None:
        self._kept: OrderedDict[UUID, tuple[float, Mapping[str, int]]] = OrderedDict()

    def get(self, company_id: UUID, count: Callable[[], Mapping[str, int] | None]) -> Mapping[str, int]:
        """The counts, by `count` if the last ones are too old. It gives None where it takes too long."""
        good_until, counts = self._kept.get(company_id, (0.0, {}))
        began = time.monotonic()
        if began < good_until:
            return counts
        found = count()
        counts = found if found is not None else counts
        took = time.monotonic() - began
        kept = _SECONDS_AFTER_FAILURE if found is None else max(_KEPT_SECONDS, _KEPT_TIMES * took)
        self._kept[company_id] = began + kept, counts
        if len(self._kept) > _MOST_COMPANIES:
            self._kept.popitem(last=False)
        return counts

    def forget(self, company_id: UUID) -> None:
        """Count again at the next page: a person may just have mended something."""
        self._kept.pop(company_id, None)
