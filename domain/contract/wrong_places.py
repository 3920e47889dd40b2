"""Finds places that no truck drives to, because their numbers are exchanged or have lost a sign: files have them, as
lists of GPS devices write the longitude first. The API takes them, since it promises to take any place."""

from typing import Literal

_FARTHEST_SOUTH = -60
_EAST_OF_EUROPE = 52
"""The longitude from which a place north of the equator is in Asia. North America lies west of -52, so it is there if
its minus is missing."""


def wrong_place(latitude: float, longitude: float) -> tuple[Literal["latitude", "longitude"], str] | None:
    """The number that is wrong, with the fault in words; None for a place that may be right."""
    if latitude == 0 and longitude == 0:
        return "latitude", "0, 0 is a place in the sea: the address was not found"
    if latitude < _FARTHEST_SOUTH:
        return "latitude", "there are no roads so far south: are latitude and longitude exchanged?"
    if latitude > 0 and longitude >= _EAST_OF_EUROPE:
        return "longitude", "the place is in Asia: is a minus missing?"
    return None
