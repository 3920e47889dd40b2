"""The answer to a push that created a route. It stands apart from the other answers, because it needs the whole
import."""

from domain.contract.shapes import Route, RouteDriver, RouteStop, RouteVehicle, StopType
from domain.ids import shown_id
from domain.routes.intake.imports import ImportOutcome
from domain.routes.intake.pushes import Push, Pushed
from domain.routes.reading.answers import pending_part, shown_or_none


def fresh_route(push: Push, pushed: Pushed, outcome: ImportOutcome) -> Route:
    """The answer to a push that created a route, made of the push and the outcome of the import, so that nothing is
    read again."""
    route = push.route
    if pushed.created_at is None:
        raise ValueError(f"the push did not create {pushed.route_id}")
    vehicle_id, driver_id = outcome.vehicle_id, outcome.driver_id
    last = len(route.stops) - 1
    return Route(
        id=shown_id("rte", pushed.route_id),
        external_id=route.external_id,
        reference=route.reference,
        name=route.reference or route.external_id,
        status=outcome.status,
        environment=push.tenant.environment,
        pending=pending_part(outcome.status, outcome.reason, outcome.detail),
        vehicle=RouteVehicle(
            shown_or_none("veh", vehicle_id),
            outcome.unit_number if vehicle_id is not None else route.vehicle.unit_number,
        ),
        driver=RouteDriver(
            shown_or_none("drv", driver_id), outcome.driver_name if driver_id is not None else route.driver.name
        ),
        scheduled_start=route.scheduled_start,
        stops=[
            RouteStop(
                index,
                stop.name,
                stop.address,
                stop.latitude,
                stop.longitude,
                StopType.DESTINATION if index == last else StopType.WAYPOINT,
                planned_arrival=None,
                actual_arrival=None,
                actual_departure=None,
            )
            for index, stop in enumerate(route.stops)
        ],
        distance_miles=None,
        fuel_plan=None,
        created_at=pushed.created_at,
    )
