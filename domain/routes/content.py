"""What of a pushed body is stored, and compared when the same `externalId` is pushed again."""

from typing import TypedDict

from domain.contract.shapes import RouteInput, RouteStopInput
from domain.documents import StopDocument


class RouteContent(TypedDict):
    """By column of `routes`. Times are text, as they stand in JSON."""

    external_id: str
    reference: str | None
    vehicle_unit_number: str | None
    vehicle_vin: str | None
    driver_name: str | None
    driver_external_id: str | None
    scheduled_start: str
    stops: list[StopDocument]


COLUMNS = """company_id uuid, environment text, external_id text, reference text, vehicle_unit_number text,
    vehicle_vin text, driver_name text, driver_external_id text, scheduled_start timestamptz, stops jsonb"""
"""The tenant and the content, as `jsonb_to_recordset` reads them."""


def content_of(route: RouteInput) -> RouteContent:
    return {
        "external_id": route.external_id,
        "reference": route.reference,
        "vehicle_unit_number": route.vehicle.unit_number,
        "vehicle_vin": route.vehicle.vin,
        "driver_name": route.driver.name,
        "driver_external_id": route.driver.external_id,
        "scheduled_start": route.scheduled_start.isoformat(),
        "stops": [stop_document(stop) for stop in route.stops],
    }


def stop_document(stop: RouteStopInput) -> StopDocument:
    """Without what the body leaves out."""
    document: StopDocument = {"name": stop.name, "latitude": stop.latitude, "longitude": stop.longitude}
    if stop.address is not None:
        document["address"] = stop.address
    if stop.arrival_window is not None:
        window = document["arrivalWindow"] = {}
        if stop.arrival_window.start is not None:
            window["start"] = stop.arrival_window.start.isoformat()
        if stop.arrival_window.end is not None:
            window["end"] = stop.arrival_window.end.isoformat()
    return document
