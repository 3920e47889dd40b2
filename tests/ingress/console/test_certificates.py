"""The page of a route leads to the certificate of its plan, which is only for its company."""

import json
from datetime import datetime

from deploy.clients.python.fuelroute_client import check_certificate
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.planning.plans import inputs, meridian, priced
from tests.ingress.console.conftest import World


def test_the_certificate_of_a_plan_is_downloaded_from_the_page_of_its_route(world: World, now: datetime) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    plan = compute_plan(inputs(meridian(400), priced(100, 3.4), priced(200, 3.6)))
    assert isinstance(plan, ComputedPlan)
    with world.database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (plan.packed_explanation, route_id))
    route = shown_id("rte", route_id)
    address = f"/routes/{route}/certificate.json"
    viewer = world.browser(Role.VIEWER, fleet)

    file = viewer.get(address)

    assert check_certificate(file.content).startswith(f"The plan costs ${plan.objective:.4f}")
    assert json.loads(file.content)["about"]["route"] == route
    assert file.headers["content-disposition"] == f'attachment; filename="certificate-{route}.json"'
    assert world.browser(Role.OWNER, other).get(address).status_code == 404


def test_a_route_without_a_plan_has_no_certificate(world: World, now: datetime) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)

    address = f"/routes/{shown_id('rte', route_id)}/certificate.json"
    assert world.browser(Role.OWNER, fleet).get(address).status_code == 404
