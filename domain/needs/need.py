"""A need: something that a person has to mend. The tables of this folder declare each one once; the console's pages,
notices, alerts, metrics and the rules of Prometheus derive from them."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class Need:
    kind: str
    """The kind, in the words of subscriptions and notices."""
    label: str
    """Its name where people choose."""
    ended: str
    """The sentence that says that it is over."""
    path: str = "/queues"
    """The page of the console on which a person mends it."""


class Summary(NamedTuple):
    """A need without routes: the words of its first case, and how many more there are."""

    what: str
    what_to_do: str
    path: str
    more: int
