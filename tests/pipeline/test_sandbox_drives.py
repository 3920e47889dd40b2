"""The sandbox drives itself through real processes: from a push to the last stop, with nobody else's help, and without
a word to any gateway."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from deploy.embedded import EmbeddedRedis, running
from domain.lifecycle import Environment
from domain.queue.heartbeats import read_last_pass_runs
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.gateway import HOST, running_gateway
from tests.pipeline.world import messages_of, store_prices
from tests.rows import named, stored_id
from tests.service import Client, Service, eventually, running_service

SCHEDULERS = 3
STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(scope="module")
def own_service(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that may call gateways of this machine, and whose leader may be killed."""
    with running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)) as url:
        own = settings.model_copy(update={"database_url": make_database("drives"), "redis_url": url})
        with running_service(
            own,
            tmp_path_factory.mktemp("logs"),
            processes=("ingress", "workers", *["scheduler"] * SCHEDULERS),
            IMPORT_PASS_SECONDS="2",
            SWEEP_SECONDS="1",
            AUTODRIVE_SECONDS="0.3",
            IMPORT_WAIT_SECONDS="30",
            MESSAGE_ALLOWED_HOSTS=HOST,
        ) as service:
            store_prices(service)
            yield service


def pushed(client: Client, *, expected: int = 201, **changes: Any) -> dict[str, Any]:
    start = changes.pop("start", datetime.now(UTC) + timedelta(days=1))
    answer = client.push(route_body(start, **{"stops": STOPS, **changes}))
    assert answer.status_code == expected, answer.text
    return dict(answer.json())


def simulated_times(client: Client, route: dict[str, Any]) -> list[datetime]:
    with client.service.database.transaction() as connection:
        rows = (
            named(connection)
            .execute(
                "SELECT recorded_at FROM positions WHERE company_id = %s AND vehicle_id = %s"
                " AND environment = 'sandbox' ORDER BY recorded_at",
                (client.fleet.company_id, stored_id(route["vehicle"]["id"])),
            )
            .fetchall()
        )
    return [row.recorded_at for row in rows]


def test_a_route_of_tomorrow_is_driven_from_draft_to_completed_today(own_service: Service) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    with own_service.new_tenant(Environment.SANDBOX, sandbox_autodrive="3600x") as client:
        route = pushed(client, start=start)
        assert route["status"] == "draft"

        active = client.wait_for(route["id"], "active", "completed")
        assert active["fuelPlan"]["stops"], "25 % of a tank do not reach Newark"
        completed = client.wait_for(route["id"], "completed")

        arrivals = [datetime.fromisoformat(stop["actualArrival"]) for stop in completed["stops"]]
        assert arrivals == sorted(arrivals)
        assert abs(arrivals[0] - start) < timedelta(minutes=6)
        assert timedelta(hours=12) < arrivals[-1] - arrivals[0] < timedelta(hours=17)
        (message,) = messages_of(client, route["id"])
        assert (message.status, message.channel) == ("suppressed", "sandbox")


def test_no_gateway_hears_of_a_driven_route_while_a_live_one_is_sent_to_it(own_service: Service) -> None:
    with running_gateway() as gateway, own_service.new_tenant(sandbox_autodrive="3600x") as live:
        with own_service.database.transaction() as connection:
            for change in ("companies SET message_url = %s WHERE id", "drivers SET contact = %s WHERE company_id"):
                connection.execute(f"UPDATE {change} = %s", (gateway.url, live.fleet.company_id))
        with own_service.client(live.fleet, Environment.SANDBOX) as client:
            route = pushed(client, reference="SANDBOX-LOWFUEL-3600X")
            client.wait_for(route["id"], "completed")
            (message,) = messages_of(client, route["id"])
            assert message.text.startswith("LOW FUEL")
            assert gateway.received == []

        live_route = pushed(live, start=datetime.now(UTC))
        live.post_fixes(JOLIET, fuelPercent=60)
        live.wait_for(live_route["id"], "active")
        assert len(gateway.received) == 1, "the gateway would have heard of the other one"


def test_a_killed_leader_costs_a_drive_nothing(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX) as client:
        route = pushed(client, reference="SANDBOX-DRIVE-3600X")
        client.wait_for(route["id"], "active")
        for _ in range(SCHEDULERS - 1):
            kill_the_leader(own_service)

        completed = client.wait_for(route["id"], "completed")

        times = simulated_times(client, route)
        assert max(later - sooner for sooner, later in pairwise(times)) <= timedelta(minutes=2), "no fix is missing"
        assert all(stop["actualArrival"] for stop in completed["stops"])
        assert len(messages_of(client, route["id"])) == 1


def kill_the_leader(service: Service) -> None:
    with redis_client(service.settings.require_redis_url()) as redis:
        (run,) = [run for run in read_last_pass_runs(redis) if run.name == "autodrive"]
        os.kill(int(run.leader.rpartition(":")[2]), signal.SIGKILL)
        eventually(
            lambda: [one for one in read_last_pass_runs(redis) if one.name == "autodrive"],
            lambda found: found[0].leader != run.leader,
        )


def test_a_driven_route_is_refused_changes_while_it_is_active(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX) as client:
        route = pushed(client, reference="SANDBOX-DRIVE")
        client.wait_for(route["id"], "active")

        again = client.push(route_body(datetime.now(UTC), externalId=route["externalId"]))
        canceled = client.delete(f"/v1/routes/{route['id']}")

        assert (again.status_code, again.json()["code"]) == (409, "route_active")
        assert (canceled.status_code, canceled.json()["code"]) == (409, "route_active")


def test_a_truck_that_leaves_its_road_gets_a_new_plan_and_still_arrives(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX, replan_en_route=True) as client:
        route = pushed(client, reference="SANDBOX-OFFROUTE-3600X", stops=[JOLIET, NEWARK])

        client.wait_for(route["id"], "completed")

        with own_service.database.transaction() as connection:
            causes = (
                named(connection)
                .execute(
                    "SELECT cause->>'kind' AS kind FROM plans WHERE route_id = %s ORDER BY generated_at",
                    (stored_id(route["id"]),),
                )
                .fetchall()
            )
        assert [row.kind for row in causes][:2] == [None, "off_road"]


def test_an_empty_tank_ends_in_error(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX) as client:
        route = pushed(client, externalId="SANDBOX-EMPTY-1")

        ended = client.wait_for(route["id"], "error")

        assert ended["fuelPlan"] is None


def test_a_rehearsed_planned_route_stays_planned(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX) as client:
        route = pushed(client, reference="SANDBOX-PLANNED")
        client.wait_for(route["id"], "planned")
        time.sleep(3)
        assert client.route(route["id"])["status"] == "planned"
        assert client.delete(f"/v1/routes/{route['id']}").status_code == 204


def test_pending_reasons_are_rehearsed_and_pass(own_service: Service) -> None:
    with own_service.new_tenant(Environment.SANDBOX) as client:
        waiting = pushed(client, expected=202, externalId="SANDBOX-PENDING-1")
        future = pushed(client, expected=202, reference="SANDBOX-FUTURE")
        failing = pushed(client, expected=202, externalId="SANDBOX-IMPORT-ERROR")
        assert [(one["status"], one["pending"]["reason"]) for one in (waiting, future, failing)] == [
            ("pending", "not_attempted"),
            ("pending_window", "outside_import_window"),
            ("pending", "error"),
        ]

        client.wait_for(future["id"], "draft")
        client.wait_for(waiting["id"], "draft")
        client.wait_for(failing["id"], "error")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vehicle": {"unitNumber": "SANDBOX-UNMAPPED"}}, "vehicle_unmapped"),
        ({"driver": {"name": "SANDBOX-UNMAPPED"}}, "driver_unmapped"),
    ],
)
def test_unmapped_values_never_match_even_where_somebody_has_them(
    service: Service, changes: dict[str, Any], reason: str
) -> None:
    with service.new_tenant(Environment.SANDBOX) as client, service.client(client.fleet) as live:
        with service.database.transaction() as connection:
            connection.execute(
                "UPDATE vehicles SET unit_number = 'SANDBOX-UNMAPPED' WHERE id = %s", (client.fleet.trucks[1],)
            )
            connection.execute("UPDATE drivers SET name = 'SANDBOX-UNMAPPED' WHERE id = %s", (client.fleet.drivers[1],))

        held = pushed(client, expected=202, **changes)

        assert (held["status"], held["pending"]["reason"]) == ("pending_mapping", reason)
        assert "never" in held["pending"]["detail"] or "ever" in held["pending"]["detail"]
        assert pushed(live, **changes)["status"] == "draft"


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (500, "internal_error")])
def test_errors_are_rehearsed_like_the_real_ones_and_store_nothing(service: Service, status: int, code: str) -> None:
    body = route_body(datetime.now(UTC), externalId=f"SANDBOX-HTTP-{status}")
    with service.new_tenant(Environment.SANDBOX) as client:
        answer = client.push(body)

        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["type"], problem["status"], problem["code"]) == ("about:blank", status, code)
        if status == 429:
            assert (answer.headers["retry-after"], answer.headers["x-ratelimit-remaining"]) == ("1", "0")
            assert int(answer.headers["x-ratelimit-limit"]) == 600
        else:
            assert answer.headers["x-request-id"] in problem["detail"]
        assert client.get("/v1/routes").json()["total"] == 0


def test_the_values_mean_nothing_with_a_live_key(own_service: Service) -> None:
    names = (
        *("SANDBOX-DRIVE-3600X", "SANDBOX-OFFROUTE", "SANDBOX-LOWFUEL", "SANDBOX-EMPTY", "SANDBOX-PLANNED"),
        *("SANDBOX-PENDING", "SANDBOX-FUTURE", "SANDBOX-IMPORT-ERROR", "SANDBOX-HTTP-429", "SANDBOX-HTTP-500"),
    )
    with own_service.new_tenant(sandbox_autodrive="3600x") as client:
        routes = [pushed(client, externalId=name, reference=name) for name in names]
        assert {route["status"] for route in routes} == {"draft"}
        time.sleep(2)  # several passes of the sandbox's drives
        assert {client.route(route["id"])["status"] for route in routes} == {"draft"}
        assert simulated_times(client, routes[0]) == []
