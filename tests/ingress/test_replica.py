"""Routes read from a real replica: never older than the caller's own writes, and from the primary where that is in
doubt."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.embedded import EmbeddedPostgres, running
from domain.accounts.keys import revoke_key
from domain.settings import Settings
from ingress.api.replica import Freshness
from tests.factories import DOT, route_body
from tests.metrics import Metrics
from tests.replica import Replica, running_replica
from tests.rows import stored_id
from tests.servers import CopiedPostgres, own_redis
from tests.service import Client, Service, eventually, one_below, running_service

LAG_SECONDS = 2.0

# --- Real servers -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    server = CopiedPostgres(tmp_path_factory.mktemp("primary"))
    with running(server):
        yield server


@pytest.fixture(scope="module")
def replica(primary: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    with running_replica(primary, tmp_path_factory.mktemp("replica")) as one:
        yield one


@pytest.fixture(autouse=True)
def _replica_follows(replica: Replica) -> Iterator[None]:
    yield
    replica.speak_again()
    replica.go_on()


@pytest.fixture(scope="module")
def own_settings(
    settings: Settings, primary: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with own_redis(tmp_path_factory.mktemp("redis")) as redis:
        yield settings.model_copy(update={"database_url": primary.url, "redis_url": redis.url})


@pytest.fixture(scope="module")
def services(
    own_settings: Settings, replica: Replica, metrics: Metrics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Service]]:
    """Two ingress processes over the same servers. The first one has metrics."""
    logs = tmp_path_factory.mktemp("logs")
    reading = {"DATABASE_REPLICA_URL": replica.url, "DATABASE_REPLICA_LAG_SECONDS": str(LAG_SECONDS)}
    with ExitStack() as stack:

        def run(process: str, folder: str, **more: str) -> Service:
            starting = running_service(
                own_settings, _made(logs / folder), processes=(process,), IMPORT_WAIT_SECONDS="30", **more
            )
            return stack.enter_context(starting)

        run("workers", "workers")
        yield [
            run("ingress", "first", **reading, METRICS_PORT=str(metrics.port)),
            run("ingress", "second", **reading),
        ]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.fixture
def client(services: list[Service]) -> Iterator[Client]:
    with services[0].new_tenant() as client:
        yield client


@pytest.fixture
def reads(metrics: Metrics) -> Callable[[], dict[str, int]]:
    """The reads since the test began, by the server that answered."""

    def count() -> dict[str, int]:
        names = ("replica", "primary")
        return {name: int(metrics.value("fuelroute_route_reads_total", server=name) or 0) for name in names}

    before = count()

    def since() -> dict[str, int]:
        return {name: total - before[name] for name, total in count().items()}

    return since


def push(client: Client, **changes: Any) -> dict[str, Any]:
    pushed = client.push(route_body(datetime.now(UTC) + timedelta(hours=1), **changes))
    assert pushed.status_code in (200, 201), pushed.text
    return dict(pushed.json())


def poll_until_replica_answers(client: Client, route_id: str, reads: Callable[[], dict[str, int]]) -> None:
    eventually(lambda: (client.route(route_id), reads())[1], lambda seen: seen["replica"] > 0, wanted="the replica")


def everything(client: Client, route: dict[str, Any]) -> list[dict[str, Any]]:
    """The route by each way to read it."""
    by_external_id = client.get("/v1/routes", params={"externalId": route["externalId"]}).json()["data"]
    listed = client.get("/v1/routes", params={"limit": 1}).json()["data"]
    return [client.route(route["id"]), *by_external_id, *listed]


def test_a_replica_answers_once_it_has_replayed_the_last_write(
    client: Client, reads: Callable[[], dict[str, int]]
) -> None:
    route = push(client)
    poll_until_replica_answers(client, route["id"], reads)

    def read_from_replica() -> int:
        before = reads()["replica"]
        assert everything(client, route) == [route] * 3
        return reads()["replica"] - before

    eventually(read_from_replica, lambda count: count == 3)  # a busy machine may be behind, which lets the replica rest


def test_a_paused_replica_hides_no_write_of_the_caller(
    client: Client, replica: Replica, reads: Callable[[], dict[str, int]]
) -> None:
    first = push(client)
    poll_until_replica_answers(client, first["id"], reads)
    replica.pause()
    before = reads()

    route = push(client, externalId="LOAD")
    assert route["status"] == "draft"
    assert everything(client, route) == [route] * 3
    route = push(client, externalId="LOAD", reference="again")
    assert everything(client, route) == [route] * 3
    assert client.delete(f"/v1/routes/{route['id']}").status_code == 204
    assert [one["status"] for one in everything(client, route)] == ["canceled"] * 3

    assert reads()["replica"] == before["replica"]


def test_another_process_and_another_key_of_the_company_see_the_write_too(
    services: list[Service], client: Client, replica: Replica
) -> None:
    with services[1].client(client.fleet) as other:
        push(other)  # its last write is known
        replica.pause()
        route = push(client)
        assert everything(other, route) == [route] * 3


def test_a_replica_that_lags_shows_every_write_of_the_caller(
    services: list[Service], client: Client, replica: Replica
) -> None:
    """Replay stands still half of the time."""
    with services[1].client(client.fleet) as other:
        for number in range(40):
            (replica.pause if number % 4 == 0 else replica.go_on if number % 4 == 2 else int)()
            route = push(client, externalId=f"L{number % 7}", reference=f"R{number}")
            assert other.route(route["id"]) == client.route(route["id"]) == route


def test_a_change_by_others_is_hidden_no_longer_than_the_lag(
    client: Client, replica: Replica, reads: Callable[[], dict[str, int]]
) -> None:
    def seconds_of_hiding() -> float:
        replica.go_on()
        route, before = push(client), reads()["replica"]
        eventually(lambda: (client.route(route["id"]), reads())[1], lambda seen: seen["replica"] > before)
        replica.pause()
        with client.service.database.transaction() as connection:
            connection.execute(
                "UPDATE routes SET closed_reason = '', status = 'error', updated_at = clock_timestamp() WHERE id = %s",
                (stored_id(route["id"]),),
            )
        changed_at = time.monotonic()
        eventually(lambda: client.route(route["id"])["status"], lambda status: status == "error")
        took, before = time.monotonic() - changed_at, reads()["replica"]
        client.route(route["id"])
        assert reads()["replica"] == before
        return took

    assert one_below(LAG_SECONDS + 3, seconds_of_hiding)


def test_a_revoked_key_is_refused_at_once(
    client: Client, replica: Replica, reads: Callable[[], dict[str, int]]
) -> None:
    route = push(client)
    poll_until_replica_answers(client, route["id"], reads)
    replica.pause()
    with client.service.database.transaction() as connection:
        revoke_key(connection, client.key_id, DOT)
    answers = [client.get(f"/v1/routes/{route['id']}"), client.get("/v1/routes"), client.get("/v1/routes?externalId=x")]
    assert [answer.status_code for answer in answers] == [401, 401, 401]


def test_a_company_that_the_replica_does_not_know_yet_is_served(services: list[Service], replica: Replica) -> None:
    replica.pause()
    with services[0].new_tenant() as client:
        assert client.get("/v1/routes").json()["total"] == 0
        route = push(client)
        assert everything(client, route) == [route] * 3


def test_another_company_s_route_stays_hidden(
    services: list[Service], client: Client, reads: Callable[[], dict[str, int]]
) -> None:
    route = push(client)
    poll_until_replica_answers(client, route["id"], reads)
    with services[0].new_tenant() as other:
        push(other)
        assert other.get(f"/v1/routes/{route['id']}").status_code == 404
        assert other.get("/v1/routes", params={"externalId": route["externalId"]}).json()["data"] == []


def test_both_servers_give_the_same_tag(client: Client, replica: Replica, reads: Callable[[], dict[str, int]]) -> None:
    route = push(client)
    address = f"/v1/routes/{route['id']}"
    of_primary = client.get(address)
    poll_until_replica_answers(client, route["id"], reads)
    of_replica = client.get(address)
    assert (of_replica.headers["etag"], of_replica.content) == (of_primary.headers["etag"], of_primary.content)
    assert client.get(address, headers={"If-None-Match": of_primary.headers["etag"]}).status_code == 304

    replica.pause()
    assert client.delete(address).status_code == 204
    changed = client.get(address, headers={"If-None-Match": of_primary.headers["etag"]})
    assert (changed.status_code, changed.json()["status"]) == (200, "canceled")


def test_a_list_of_changes_comes_from_the_primary(client: Client, replica: Replica) -> None:
    since = datetime.now(UTC).isoformat()
    replica.pause()
    route = push(client)

    def changed() -> list[str]:
        return [one["id"] for one in client.get("/v1/routes", params={"updatedSince": since}).json()["data"]]

    eventually(changed, lambda ids: ids == [route["id"]], wanted="the end of older transactions")


def test_writes_that_a_crash_forgot_are_read_from_the_primary(
    client: Client, replica: Replica, reads: Callable[[], dict[str, int]]
) -> None:
    route = push(client)
    poll_until_replica_answers(client, route["id"], reads)
    replica.pause()
    route = push(client, externalId=route["externalId"], reference="after")
    with client.service.database.transaction() as connection:
        connection.execute("TRUNCATE last_writes")

    assert everything(client, route) == [route] * 3
    replica.go_on()
    before = reads()["replica"]
    eventually(lambda: (client.route(route["id"]), reads())[1], lambda seen: seen["replica"] > before)


def test_a_silent_replica_costs_no_request_more_than_moments(client: Client, replica: Replica) -> None:
    route = push(client)

    def seconds_of_five_looks() -> float:
        replica.speak_again()
        client.route(route["id"])
        replica.fall_silent()
        started = time.monotonic()
        for _ in range(5):
            assert everything(client, route) == [route] * 3
        return time.monotonic() - started

    assert one_below(10, seconds_of_five_looks)


def test_a_replica_that_is_gone_costs_no_request(
    own_settings: Settings, primary: EmbeddedPostgres, tmp_path: Path, services: list[Service]
) -> None:
    with ExitStack() as stack:
        own = stack.enter_context(running_replica(primary, tmp_path / "replica"))
        service = stack.enter_context(
            running_service(
                own_settings, _made(tmp_path / "logs"), processes=("ingress",), DATABASE_REPLICA_URL=own.url
            )
        )
        client = stack.enter_context(service.new_tenant())
        route = push(client)
        assert everything(client, route) == [route] * 3
        own.kill()

        def slowest_of_ten_looks() -> float:
            waits = []
            for _ in range(10):
                started = time.monotonic()
                assert everything(client, route) == [route] * 3
                waits.append(time.monotonic() - started)
            return max(waits)

        assert one_below(3, slowest_of_ten_looks)


@pytest.mark.parametrize("which", ["the primary itself", "nobody is there"])
def test_an_address_that_leads_to_no_replica_costs_no_request(
    own_settings: Settings, primary: EmbeddedPostgres, tmp_path: Path, services: list[Service], which: str
) -> None:
    url = primary.url if which == "the primary itself" else "postgresql://fuelroute@127.0.0.1:1/fuelroute"
    with (
        running_service(own_settings, tmp_path, processes=("ingress",), DATABASE_REPLICA_URL=url) as service,
        service.new_tenant() as client,
    ):
        route = push(client)
        assert everything(client, route) == [route] * 3


# --- How far behind a replica may be ----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 100)), min_size=1, max_size=60))
def test_an_accepted_replica_is_behind_by_the_lag_at_most(steps: list[tuple[float, int]]) -> None:
    """Required is what the primary had written the lag ago, and never more than it has written."""
    freshness = Freshness(LAG_SECONDS)
    now, lsn = 100.0, 0
    written: list[tuple[float, int]] = []
    for seconds, grown in steps:
        now, lsn = now + seconds, lsn + grown
        written.append((now, lsn))
        least = freshness.least_lsn(lsn, now)
        before = [one for at, one in written if at <= now - LAG_SECONDS]
        assert (before[-1] if before else 0) <= least <= lsn


def test_a_replica_that_is_a_little_behind_is_accepted_while_there_are_reads() -> None:
    freshness = Freshness(LAG_SECONDS)
    for tick in range(100):
        now = tick / 10
        least = freshness.least_lsn(tick, now)
    assert 99 - LAG_SECONDS * 10 <= least <= 99 - LAG_SECONDS * 10 / 2
