"""Towns by their names: those of the console's base map, from a file of the package. No name is sent anywhere."""

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from domain.roads import Point, great_circle_miles
from domain.roads.packing import PER_DEGREE, pack_integers, unpack_integers
from domain.stations.chains import plain_town
from domain.stations.state_names import US_STATES, code_of_state, letters_of
from domain.text import printable

TOWNS_FILE = Path(__file__).with_name("towns.npz")

_PARTS_MILES = 15.0
"""Entries of one name in one state that are this near to the largest one are parts of it."""

_ZIP = re.compile(r"\s+\d{5}(-\d{4})?\s*$", re.ASCII)
_MOST_NAMED = 5
"""Most towns that a message names."""

_CANADA = frozenset(["AB", "BC", "MB", "NB", "NL", "NS", "NT", "NU", "ON", "PE", "QC", "SK", "YT"])
_COUNTRIES = {
    **dict.fromkeys(("us", "usa", "unitedstates"), "USA"),
    **dict.fromkeys(("can", "canada"), "CANADA"),
    **dict.fromkeys(("mx", "mex", "mexico"), "MEXICO"),
}
"""Countries by the letters of their names. `CA` is California."""


class UnknownTown(ValueError):
    """The text is no town, or fits several; the message says what to write."""


class NamedTown(NamedTuple):
    name: str
    state: str
    place: Point

    @property
    def label(self) -> str:
        return f"{self.name}, {self.state}"


class Towns:
    """Towns, the largest first."""

    def __init__(self, towns: Sequence[NamedTown]) -> None:
        self._by_name: dict[str, list[NamedTown]] = defaultdict(list)
        for town in towns:
            self._by_name[plain_town(town.name)].append(town)

    def find(self, text: str) -> NamedTown:
        """The town of a text such as `Joliet, IL`. Raises UnknownTown; nothing is guessed."""
        name, state = _parts(text)
        named = self._by_name.get(name) or self._by_name.get(f"{name}city") or []
        found = [one for one in named if _is_in(one, state)]
        if not found:
            raise UnknownTown(self._why_unknown(text, name, state, named))
        largest = found[0]
        apart = [one for one in found if not _is_part_of(one, largest)]
        if apart:
            raise UnknownTown(_why_unclear(text, [largest, *apart]))
        return largest

    def _why_unknown(self, text: str, name: str, state: str, elsewhere: Sequence[NamedTown]) -> str:
        likely = [*elsewhere]
        if not likely:
            names = [key for key, towns in self._by_name.items() if _is_like(key, name) and _is_in(towns[0], state)]
            near = difflib.get_close_matches(name, names, _MOST_NAMED, cutoff=0.8)
            likely = [one for key in near for one in self._by_name[key][:1]]
        hint = f"; did you mean {_listed(likely)}?" if likely else ": give its latitude and longitude"
        return f"No town {printable(text)!r} is known{hint}"


def _is_like(key: str, name: str) -> bool:
    """True if the names may be nearly equal. All other names are not compared, which would take long."""
    return key[:1] == name[:1] and abs(len(key) - len(name)) <= 2


def _parts(text: str) -> tuple[str, str]:
    """The plain name of a town, and its state or country, which may be missing: `Joliet, IL` or `Joliet IL`."""
    text = _ZIP.sub("", text)
    name, _, state = text.rpartition(",")
    if not name:
        words = text.split()
        is_code = len(words) > 1 and words[-1].upper() in US_STATES | _CANADA
        name, state = (" ".join(words[:-1]), words[-1]) if is_code else (text, "")
    country = _COUNTRIES.get(letters_of(state))
    if country is not None and "," in name:
        return _parts(name)
    return plain_town(name), country or code_of_state(state).upper()


def _is_in(town: NamedTown, state: str) -> bool:
    """True if the town is in the state or the country, or none is asked for."""
    return state in ("", town.state, _country(town.state))


def _country(state: str) -> str:
    return "USA" if state in US_STATES else "CANADA" if state in _CANADA else "MEXICO"


def _is_part_of(one: NamedTown, largest: NamedTown) -> bool:
    return one.state == largest.state and great_circle_miles(one.place, largest.place) <= _PARTS_MILES


def _why_unclear(text: str, found: Sequence[NamedTown]) -> str:
    cure = "add the state" if len({one.state for one in found}) == len(found) else "give latitude and longitude"
    return f"{printable(text)!r} fits {len(found)} towns, such as {_listed(found)}: {cure}"


def _listed(towns: Sequence[NamedTown]) -> str:
    return "; ".join(one.label for one in towns[:_MOST_NAMED])


def save_towns(towns: Sequence[NamedTown], path: Path) -> None:
    """Write the towns in the order in which they are looked for."""
    places = np.array([one.place for one in towns])
    np.savez_compressed(
        path,
        names=np.frombuffer("\n".join(one.name for one in towns).encode(), dtype=np.uint8),
        states=np.array([one.state for one in towns], dtype="U3"),
        places=pack_integers(np.rint(places * PER_DEGREE).astype(np.int64)),
    )


@functools.cache
def default_towns() -> Towns:
    """The towns of the package's file, read once in each process that needs them."""
    with np.load(TOWNS_FILE) as file:
        names, states = file["names"].tobytes().decode().split("\n"), file["states"].tolist()
        places = (unpack_integers(file["places"]).reshape(-1, 2) / PER_DEGREE).tolist()
    return Towns(
        [NamedTown(name, state, Point(*place)) for name, state, place in zip(names, states, places, strict=True)]
    )
