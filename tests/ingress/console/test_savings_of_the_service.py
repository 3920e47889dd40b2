"""The page Savings beside the whole service; `test_savings.py` has a console alone."""

from datetime import UTC, datetime

from domain.lifecycle import Role
from tests.factories import JOLIET, NEWARK, route_body
from tests.ingress.console.conftest import World, words
from tests.ingress.console.test_savings import rows_of
from tests.pipeline.world import store_prices
from tests.service import Service


def test_a_driven_route_s_figures_are_those_that_the_api_shows(world: World, service: Service) -> None:
    """The whole service takes part: the route is pushed, imported, reached, planned with real prices, and sent."""
    store_prices(service)
    with service.new_tenant() as client:
        route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=40)
        plan = client.wait_for(route_id, "active")["fuelPlan"]
        browser = world.browser(Role.VIEWER, client.fleet)
        (row,) = rows_of(browser, "/savings/plans.csv")
        assert row["route_id"] == route_id
        assert (row["saved"], row["planned_cost"], row["gallons"]) == tuple(
            f"{plan[name]:.10g}" for name in ("savingsTotal", "totalCost", "totalGallons")
        )
        assert f"${plan['savingsTotal']:,.2f} saved by 1 plan" in words(browser.look("/savings"))
