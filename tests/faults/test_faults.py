"""Each step of a route's way, broken off just before and just after: the route still ends right, once."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NamedTuple, get_args

import pytest

from tests.faults import fleet_scenarios, scenarios
from tests.faults.lanes import running_lanes
from tests.faults.points import Point, When
from tests.faults.world import World

pytestmark = pytest.mark.servers


class Step(NamedTuple):
    """A step of a route's way, and the scenario in which it is taken."""

    name: str
    point: Point
    scenario: Callable[[World], None]
    follows: bool = False
    """True where the same process has just taken the step above it: a crash before this one is the crash after that."""


def commit(function: str) -> Point:
    return Point(function)


def call(function: str) -> Point:
    return Point(function, commits=False)


def enqueued_by_ingress(job: str) -> Point:
    return Point("domain.queue.job_queue:AsyncJobQueue.put", commits=False, job=job)


def enqueued(job: str, *, by: str | None = None) -> Point:
    return Point("domain.queue.job_queue:JobQueue.put", commits=False, job=job, by=by)


def found_by_the_scheduler(job: str) -> Point:
    return Point("domain.queue.job_queue:JobQueue.put_once", commits=False, job=job)


_IMPORT = call("domain.routes.intake.imports:import_routes")
_ARRIVE = commit("domain.routes.progress.tracking:process_vehicles")
_FREED = "domain.telematics.tracks:free_trucks"
_DELIVER = commit("domain.routes.plans.delivery:start_delivery")
_SETTLE = commit("domain.routes.plans.delivery:finish_delivery")
_WEBHOOK_SETTLED = commit("domain.webhooks.deliveries:settle_deliveries")
_ERASED = "domain.housekeeping.erasure:"

STEPS = (
    # a push
    Step("committed", commit("domain.routes.intake.pushes:create_routes"), scenarios.push_a_route),
    Step("enqueued", enqueued_by_ingress("imports.run"), scenarios.push_a_route, follows=True),
    Step("imported", _IMPORT, scenarios.push_a_route),
    Step("held", _IMPORT, scenarios.push_a_route_of_an_unknown_truck),
    Step("updated", commit("domain.routes.intake.updates:store_updates"), scenarios.update_a_draft),
    Step("update enqueued", enqueued_by_ingress("imports.run"), scenarios.update_a_draft, follows=True),
    Step("update imported", _IMPORT, scenarios.update_a_draft),
    Step(
        "planned route updated",
        commit("domain.routes.intake.updates:store_updates"),
        scenarios.update_a_route_whose_message_is_refused,
    ),
    Step("update of a planned route imported", _IMPORT, scenarios.update_a_route_whose_message_is_refused),
    Step("superseded", commit("domain.routes.intake.superseding:supersede"), scenarios.supersede_a_route),
    Step("canceled", commit("domain.routes.transitions:cancel_route"), scenarios.cancel_a_planned_route),
    Step("cancel enqueued", enqueued("arrivals.process"), scenarios.cancel_a_planned_route, follows=True),
    # the truck arrives, the driver is told
    Step("positions committed", commit("domain.telematics.feed:store_positions"), scenarios.start_a_route),
    Step("positions enqueued", enqueued("arrivals.process"), scenarios.start_a_route, follows=True),
    Step("arrived", _ARRIVE, scenarios.start_a_route),
    Step("plan enqueued", enqueued("plans.build"), scenarios.start_a_route, follows=True),
    Step("planned", commit("domain.routes.plans.first_plan:finish_plan"), scenarios.start_a_route),
    Step("message enqueued", enqueued("messages.send"), scenarios.start_a_route, follows=True),
    Step("put into the outbox", _DELIVER, scenarios.start_a_route),
    Step("suppressed in the sandbox", _DELIVER, scenarios.start_a_sandbox_route),
    Step("message claimed", _DELIVER, scenarios.tell_a_driver_through_a_gateway),
    Step("settled", _SETTLE, scenarios.tell_a_driver_through_a_gateway),
    Step("claimed for the cab", _DELIVER, scenarios.tell_a_driver_in_the_cab),
    Step("settled in the cab", _SETTLE, scenarios.tell_a_driver_in_the_cab),
    Step("refusal settled", _SETTLE, scenarios.tell_a_driver_through_a_gateway_that_refuses_first),
    Step(
        "no plan feasible",
        commit("domain.routes.transitions:no_plan_feasible"),
        scenarios.start_a_route_that_no_tank_can_drive,
    ),
    # on the way
    Step("completed", commit(_FREED), scenarios.complete_a_route),
    Step("truck freed", enqueued("arrivals.process", by=_FREED), scenarios.complete_a_route, follows=True),
    Step("review enqueued", enqueued("plans.review"), scenarios.fuel_at_the_first_stop),
    Step("review begun", commit("domain.routes.plans.reviews:begin_review"), scenarios.fuel_at_the_first_stop),
    Step("corrected", commit("domain.routes.plans.reviews:finish_review"), scenarios.fuel_at_the_first_stop),
    Step("menu made", commit("domain.routes.plans.menus:finish_menu"), scenarios.start_a_route),
    Step("correction sent", _DELIVER, scenarios.fuel_at_the_first_stop),
    Step("deviation seen", commit("domain.routes.plans.deviating_trucks:follow_trucks"), scenarios.leave_the_road),
    Step("replanned", commit("domain.routes.plans.replans:finish_replan"), scenarios.leave_the_road),
    Step("deals committed", commit("domain.stations.deals:store_deal_rows"), scenarios.import_deals),
    Step("new prices enqueued", enqueued("plans.after_prices"), scenarios.import_deals, follows=True),
    Step(
        "reviews of new prices requested",
        commit("domain.routes.plans.review_requests:after_price_changes"),
        scenarios.import_deals,
    ),
    Step("reviews of new prices enqueued", enqueued("plans.review"), scenarios.import_deals, follows=True),
    # the company's systems are told
    Step("canceled route captured", commit("domain.routes.transitions:cancel_route"), scenarios.tell_an_endpoint),
    Step("webhooks enqueued", enqueued("webhooks.deliver"), scenarios.tell_an_endpoint),
    Step("webhook claimed", commit("domain.webhooks.deliveries:claim_deliveries"), scenarios.tell_an_endpoint),
    Step("webhook settled", _WEBHOOK_SETTLED, scenarios.tell_an_endpoint),
    Step("webhook's refusal settled", _WEBHOOK_SETTLED, scenarios.tell_an_endpoint_that_refuses_first),
    # the fleet changes
    Step("mapped", commit("domain.fleet.mappings:store_mapping"), fleet_scenarios.map_a_unit_number),
    Step("mapping enqueued", enqueued("imports.run"), fleet_scenarios.map_a_unit_number, follows=True),
    Step(
        "vehicles committed",
        commit("domain.routes.intake.fleet_changes:import_vehicles"),
        fleet_scenarios.import_vehicles,
    ),
    Step("truck retired", commit("domain.routes.intake.retiring:retire"), fleet_scenarios.retire_a_truck),
    Step("driver's routes ended", commit("domain.routes.intake.retiring:retire"), fleet_scenarios.erase_a_driver),
    Step("driver's routes blanked", commit(f"{_ERASED}_blank_routes"), fleet_scenarios.erase_a_driver),
    Step("driver forgotten", commit("domain.fleet.former_names:forget_former_names"), fleet_scenarios.erase_a_driver),
    Step("company retired", commit("domain.accounts.companies:retire_company"), fleet_scenarios.erase_a_company),
    Step("routes erased", commit("domain.housekeeping.retention:delete_routes"), fleet_scenarios.erase_a_company),
    Step("company erased", commit(f"{_ERASED}_record"), fleet_scenarios.erase_a_company),
    Step("company closed", commit("domain.accounts.companies:retire_company"), fleet_scenarios.retire_a_company),
    Step("routes closed", commit("domain.routes.intake.retiring:close_routes"), fleet_scenarios.retire_a_company),
    # the console
    Step(
        "arrival entered",
        commit("domain.routes.progress.dispatcher_entries:enter_stop_event"),
        fleet_scenarios.enter_an_arrival,
    ),
    Step("entered arrival enqueued", enqueued("plans.build"), fleet_scenarios.enter_an_arrival, follows=True),
    Step("plan requested", commit("domain.routes.progress.dispatcher_entries:plan_again"), fleet_scenarios.plan_again),
    Step("requested plan enqueued", enqueued("plans.review"), fleet_scenarios.plan_again, follows=True),
    Step(
        "file imported",
        commit("domain.operations.import_records:finish"),
        fleet_scenarios.import_vehicles_in_the_console,
    ),
    Step(
        "import of the file enqueued",
        enqueued("imports.run"),
        fleet_scenarios.import_vehicles_in_the_console,
        follows=True,
    ),
    # the scheduler
    Step("found by the sweep", found_by_the_scheduler("imports.due"), fleet_scenarios.lose_the_hint_of_a_push),
    Step("found by the import pass", found_by_the_scheduler("imports.run"), fleet_scenarios.lose_the_hint_of_a_mapping),
    Step("counts summed up", commit("domain.routes.reading.counts:fold"), fleet_scenarios.change_the_counts),
)


class Case(NamedTuple):
    when: When
    step: Step

    def __str__(self) -> str:
        return f"{self.when} {self.step.name}"


CASES = [Case(when, step) for step in STEPS for when in get_args(When) if not (step.follows and when == "before")]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, "Future[None]"]]:
    """The outcome of each case that is asked for. They run beside each other, for they mostly wait."""
    asked_for = {item.name for item in request.session.items}
    wanted = [case for case in CASES if f"{test_a_crash_at_a_step_changes_nothing.__name__}[{case}]" in asked_for]
    with running_lanes(tmp_path_factory.mktemp("faults"), {step.point for step in STEPS}) as run:
        yield {case: run(case.step.scenario, case.step.point, case.when) for case in wanted}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_crash_at_a_step_changes_nothing(case: Case, outcomes: dict[Case, "Future[None]"]) -> None:
    outcomes[case].result()
