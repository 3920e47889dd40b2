"""The page Preview a load: two towns and a truck, and the fuel of the trip before anybody takes it."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.users import EVERYBODY
from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import FieldFault
from domain.database.connections import Tenant
from domain.encoding import write
from domain.planning.explanation import Explanation
from domain.previews.shapes import LoadPreview, PreviewInput
from domain.roads import Point
from domain.routes.plans.stored_choices import KINDS_IN_WORDS
from domain.stations.places import places_of_stations
from ingress.console.addresses import in_page_threads
from ingress.console.browser import read_query
from ingress.console.console import console_of
from ingress.console.drawing import WIDTH, draw_load
from ingress.console.maps import with_map
from ingress.console.profile import PLOT, draw_profile
from ingress.console.refusals import Refused
from ingress.console.route_map import map_ground_of_load, map_stops_of_load
from ingress.console.signed_in import Page, answer_signed_in
from ingress.previews import messages
from ingress.previews.processes import PreviewBusy

_PLACE = re.compile(r"\s*(-?\d{1,2}(?:\.\d+)?)\s*,\s*(-?\d{1,3}(?:\.\d+)?)\s*")
"""Latitude and longitude, as maps copy them: `41.525, -88.083`."""

_NUMBERS = {
    "tank": ("vehicle", "fuelTankCapacityGallons", "Tank"),
    "mpg": ("vehicle", "mpg", "Miles per gallon"),
    "fuel": ("vehicle", "fuelPercent", "Fuel at the start"),
    "reserve": ("policy", "reservePercent", "Reserve"),
    "end": ("policy", "endFuelPercent", "Fuel at the destination"),
    "purchase": ("policy", "minPurchaseGallons", "Smallest purchase"),
    "stop_cost": ("policy", "stopCost", "Cost of a stop"),
    "detour": ("policy", "maxDetourMiles", "Longest detour"),
    "most_stops": ("policy", "maxStops", "Most stops"),
}
"""The numbers of the form: the part of the load that has each, its name there, and its label."""
_STOPS = {"from": "From", "via": "By way of", "to": "To"}
_FIELDS = (*_STOPS, "unit", "start", "environment", *_NUMBERS)


class _Asked(NamedTuple):
    """The load of a form: its body, and the form's field of each stop."""

    tenant: Tenant
    body: bytes
    stops: Sequence[str]


def _asked(page: Page) -> _Asked | None:
    """The load that the address asks for; None where it names no towns yet."""
    form = page.form
    named = [name for name in _STOPS if form.text(name)]
    if not form.text("from") and not form.text("to"):
        return None
    load: dict[str, Any] = {"stops": [_stop(form.text(name)) for name in named], "vehicle": {}, "policy": {}}
    for name, (part, field, _) in _NUMBERS.items():
        if form.text(name):
            load[part][field] = _number(form.text(name))
    if form.text("unit"):
        load["vehicle"]["unitNumber"] = form.text("unit")
    if form.text("start"):
        load["scheduledStart"] = page.moment("start", "Go back and correct the start.").isoformat()
    return _Asked(page.tenant, write(load), named)


def _stop(text: str) -> dict[str, Any]:
    place = _PLACE.fullmatch(text)
    if place is None:
        return {"town": text}
    return {"latitude": float(place[1]), "longitude": float(place[2]), "name": text}


def _number(text: str) -> float | int | str:
    """The number; the text itself where it is none, which the check then refuses."""
    try:
        number = int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


async def _endpoint(request: Request) -> Response:
    """Reads the load in the page's transaction, has it previewed in another process while no thread and no connection
    waits, and shows the answer."""
    form = read_query(request)
    asked: _Asked | None = None

    def read(page: Page) -> Response:
        nonlocal asked
        asked = _asked(page)
        return _page(page) if asked is None else Response()

    answer = partial(answer_signed_in, request, form=form, by=EVERYBODY, is_hidden=True)
    first = await in_page_threads(request, partial(answer, read))
    if asked is None:
        return first
    shown = await _shown(request, asked)
    return await in_page_threads(request, partial(answer, partial(_page, asked=asked, shown=shown)))


class _Shown(NamedTuple):
    """The part of the page below its form: a preview with the explanation of its plan, or the faults of the form."""

    preview: LoadPreview | None = None
    explanation: Explanation | None = None
    faults: Sequence[str] = ()


_NOTHING = _Shown()


async def _shown(request: Request, asked: _Asked) -> _Shown:
    """The preview of a load. Raises Refused if none is ready in time."""
    try:
        read_body(asked.body, PreviewInput)
        reply: messages.Reply = await console_of(request).previews.preview(asked.tenant, asked.body, explained=True)
    except Invalid as invalid:
        reply = messages.Refused(invalid.faults)
    except PreviewBusy:
        raise Refused(503, "The preview is not ready", "Others are being computed. Load the page again.") from None
    match reply:
        case messages.Previewed(answer, explanation):
            explained = cast("Explanation", msgspec.json.decode(explanation))
            return _Shown(msgspec.json.decode(answer, type=LoadPreview), explained)
        case messages.Refused(faults):
            return _Shown(faults=[_said(fault, asked) for fault in faults])
        case _:
            raise Refused(500, "The preview failed", "It is logged. Load the page again, or tell who runs the service.")


_LABELS = {
    **{f"{part}.{field}": label for part, field, label in _NUMBERS.values()},
    "vehicle.unitNumber": "Unit",
    "scheduledStart": "Start",
}


def _said(fault: FieldFault, asked: _Asked) -> str:
    """A fault by the name of the form's field."""
    if fault.field == "stops" and len(asked.stops) < len(("from", "to")):
        return "From and to: give both towns"
    return f"{_label_of(asked.stops, fault.field)}: {fault.message}"


def _label_of(stops: Sequence[str], field: str) -> str:
    """The name of the form's field for a field of the load."""
    stop = re.match(r"stops\[(\d+)\]", field)
    return _STOPS[stops[int(stop[1])]] if stop is not None else _LABELS.get(field, field.capitalize())


def _page(page: Page, *, asked: _Asked | None = None, shown: _Shown = _NOTHING) -> Response:
    response = page.render(
        "previews.html",
        section="previews",
        status=400 if shown.faults else 200,
        typed={name: page.form.text(name) for name in _FIELDS},
        is_asked=asked is not None,
        environment=page.tenant.environment,
        faults=shown.faults,
        preview=shown.preview,
        choice_words=KINDS_IN_WORDS,
        assumed_words=partial(_label_of, asked.stops if asked is not None else ()),
        **(_pictures(page, shown.preview, shown.explanation) if shown.preview and shown.explanation else {}),
    )
    return with_map(page.console.settings, response)


def _pictures(page: Page, preview: LoadPreview, explanation: Explanation) -> Mapping[str, Any]:
    """The map, the drawing that stands in for it, and the profile of the tank."""
    stops = [(Point(stop.latitude, stop.longitude), stop.name) for stop in preview.stops]
    ground, drawing = draw_load(explanation, stops)
    places = places_of_stations(page.connection, sorted({one["station_id"] for one in explanation["candidates"]}))
    return {
        "ground": ground,
        "drawing": drawing,
        "width": WIDTH,
        "map_ground": map_ground_of_load(explanation, places),
        "map_moving": map_stops_of_load(stops),
        "profile": draw_profile(None, explanation),
        "plot": PLOT,
    }


ADDRESSES = [Route("/previews", _endpoint, methods=["GET"])]
