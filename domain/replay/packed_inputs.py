"""The inputs of a driven trip in a compact form, for the years in which a quarter can be replayed.

Nothing is rounded and no station is left out: unpacked, a trip is solved to the same cent. What replays do not read is
left away (the line of the road, names of stations, reasons). The stations stand by columns, numbers as differences
in whole steps, which zlib packs well."""

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from domain.planning.floors import MileageError
from domain.planning.trips import BurnedBy
from domain.planning.what_if import KeptTrip, PassedStation
from domain.stations.prices import PRICE_DECIMALS, Deal

_FORM = 1
"""The number of this form, with which each packed trip begins."""
_MILE_DECIMALS = 2

_Column = list[Any]


class UnreadableInputs(Exception):
    """Packed inputs that cannot be read: broken, or of a later release."""


def pack_inputs(inputs: KeptTrip) -> bytes:
    stations = inputs.stations
    columns = [
        _texts([one.station_id for one in stations]),
        _texts([one.brand for one in stations]),
        _texts([one.state for one in stations]),
        *(_steps([getattr(one, name) for one in stations], decimals) for name, decimals in _NUMBERS),
        [list(one.deals) for one in stations] if any(one.deals for one in stations) else [],
    ]
    head = [getattr(inputs, name) for name in _SINGLE]
    deals = None if inputs.deals is None else [_deal_row(one) for one in inputs.deals.values()]
    document = [_FORM, head, list(inputs.error), [list(one) for one in inputs.burned], deals, len(stations), columns]
    return zlib.compress(msgspec.msgpack.encode(document), level=9)


def unpack_inputs(packed: bytes) -> KeptTrip:
    """The inputs that were packed. Raises UnreadableInputs."""
    try:
        form, head, error, burned, deals, count, columns = msgspec.msgpack.decode(zlib.decompress(packed))
        if form != _FORM:
            raise UnreadableInputs(f"form {form}, of a later release")
        ids, brands, states, *numbers, held = columns
        read = [_read_texts(ids), _read_texts(brands), _read_texts(states), *map(_read_steps, numbers)]
        by_name = dict(zip(_COLUMNS, read, strict=True)) | {"deals": [tuple(one) for one in held] or [()] * count}
        rows = zip(*(by_name[name] for name in PassedStation._fields), strict=True)
        return KeptTrip(
            **dict(zip(_SINGLE, head, strict=True)),
            error=MileageError(*error),
            burned=tuple(BurnedBy(*one) for one in burned),
            stations=tuple(map(PassedStation._make, rows)),
            deals=None if deals is None else {one[2]: Deal(*one) for one in deals},
        )
    except (ValueError, TypeError, KeyError, zlib.error, msgspec.DecodeError) as error:
        raise UnreadableInputs(f"{type(error).__name__}: {error}") from error


_SINGLE = (
    "capacity_gallons",
    "usable_gallons",
    "start_gallons",
    "level_is_assumed",
    "distance_miles",
    "mpg",
    "looked_at_miles",
    "spread_percent",
)
_NUMBERS = (
    ("mile", _MILE_DECIMALS),
    ("miles_in", _MILE_DECIMALS),
    ("miles_out", _MILE_DECIMALS),
    ("net_price", PRICE_DECIMALS),
    ("tax", PRICE_DECIMALS),
    ("retail_price", PRICE_DECIMALS),
    ("quote", PRICE_DECIMALS),
)
_COLUMNS = ("station_id", "brand", "state", *(name for name, _ in _NUMBERS))


def _deal_row(one: Deal) -> _Column:
    return [one.discount_per_gallon, one.net_price, one.number, one.brand]


def _texts(values: Sequence[str | None]) -> _Column:
    """The different texts, and the place of each value among them."""
    different = list(dict.fromkeys(values))
    if len(different) == len(values):
        return [different]
    places = {text: place for place, text in enumerate(different)}
    at = [places[text] for text in values]
    return [different, bytes(at) if len(different) < 256 else at]


def _read_texts(column: _Column) -> list[str | None]:
    different, *places = column
    return [different[place] for place in places[0]] if places else different


def _steps(values: Sequence[float | None], decimals: int) -> _Column:
    """The differences of the values in whole steps; the values themselves where steps are not exact."""
    per_unit = 10**decimals
    steps = [None if value is None else round(value * per_unit) for value in values]
    exact = all(step is None or step / per_unit == value for step, value in zip(steps, values, strict=True))
    if not exact:
        return [0, list(values)]
    if not any(step is not None for step in steps):
        return [per_unit, len(steps)]
    before, differences = 0, list[int | None]()
    for step in steps:
        differences.append(None if step is None else step - before)
        before = before if step is None else step
    return [per_unit, differences]


def _read_steps(column: _Column) -> list[float | None]:
    per_unit, stored = column
    if not per_unit:
        return list(stored)
    if isinstance(stored, int):
        return [None] * stored
    total, values = 0, list[float | None]()
    for difference in stored:
        total += difference or 0
        values.append(None if difference is None else total / per_unit)
    return values
