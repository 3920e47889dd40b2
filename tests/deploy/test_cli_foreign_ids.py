"""A command that acts for one company treats an id of another company as one that never existed, and changes nothing of
it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.ids import IdKind, new_id, shown_id
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_layout import dead_letter_messages_key, dead_letters_key, messages_key
from domain.webhooks.delivery_log import send_test
from tests.deploy.commands import Cli, Result, commands
from tests.domain.connectors.helpers import added
from tests.domain.fills.cards import buy_planned_fuel
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.replay.driven import ask_for_replay
from tests.domain.webhooks.endpoints import end_deliveries, make_endpoint
from tests.factories import DOT, Fleet, make_fleet
from tests.rows import named

OWN_ENDPOINT = "OWN_ENDPOINT"
"""Stands for the id of the company's own endpoint of webhooks."""

OWN_CONNECTOR = "OWN_CONNECTOR"


MOVED_BY_WORKERS = ["failing_since", "attempts", "failures", "retry_at", "claimed_until", "error", "payload"]
"""Columns that change while a service runs on the same database and tries to deliver webhooks."""


class Foreign(NamedTuple):
    """A command of one company, and the option or argument that names a record."""

    command: str
    parameter: str
    kind: IdKind | Literal["letter", "deal"]
    more: Sequence[str] = ()


FOREIGN = (
    Foreign("vehicles show", "id", "veh"),
    Foreign("drivers show", "id", "drv"),
    Foreign("deals show", "id", "deal"),
    Foreign("vehicles retire", "vehicle_id", "veh"),
    Foreign("vehicles retire", "vehicle_id", "veh", ["--force"]),
    Foreign("drivers retire", "driver_id", "drv"),
    Foreign("drivers erase", "driver_id", "drv", ["--yes", "--force"]),
    Foreign("mappings add", "target_id", "veh", ["--kind", "unit_number", "--value", "A-1"]),
    Foreign("mappings add", "target_id", "drv", ["--kind", "driver_name", "--value", "Ann"]),
    Foreign("messages release", "message_ids", "msg"),
    Foreign("messages discard", "message_ids", "msg"),
    *(
        Foreign(f"webhooks {command}", "endpoint_id", "whe", more)
        for command, more in {
            "show": [],
            "set": ["--disable"],
            "remove": ["--yes"],
            "rotate-secret": [],
            "test": [],
            "deliveries": [],
            "replay": ["--failed-since", "2026-01-01T00:00:00Z"],
        }.items()
    ),
    Foreign("webhooks deliveries", "event_id", "evt", [OWN_ENDPOINT]),
    Foreign("webhooks replay", "event_id", "evt", [OWN_ENDPOINT]),
    *(
        Foreign(f"connectors {command}", "connector_id", "con", more)
        for command, more in {
            "test": [],
            "set": ["--credentials", "/dev/null"],
            "pause": [],
            "resume": [],
            "remove": ["--yes"],
            "vehicles": [],
        }.items()
    ),
    Foreign("prices show", "held_id", "hld"),
    Foreign("prices accept", "held_id", "hld"),
    Foreign("prices refuse", "held_id", "hld"),
    Foreign("prices refused", "run", "imp"),
    Foreign("fills review", "fill_id", "fil"),
    Foreign("connectors link", "vehicle", "veh", [OWN_CONNECTOR, "OWN-KEY"]),
    Foreign("connectors link", "connector_id", "con", ["OWN-KEY", "--vehicle", "none"]),
    Foreign("replay", "earlier", "rpl"),
    Foreign("queues dead", "route_id", "rte"),
    Foreign("queues replay", "route_id", "rte", ["--yes", "--reason", "wrong"]),
    Foreign("queues discard", "route_id", "rte", ["--yes", "--reason", "wrong"]),
    Foreign("queues dead", "id", "letter"),
    Foreign("queues replay", "id", "letter", ["--yes", "--reason", "wrong"]),
    Foreign("queues discard", "id", "letter", ["--yes", "--reason", "wrong"]),
)


COMMANDS = {name.removeprefix("fuelroute "): command for name, command in commands()}


def test_every_command_of_a_company_that_names_a_record_is_tried() -> None:
    assert {one.command for one in FOREIGN} <= COMMANDS.keys()
    for name, command in COMMANDS.items():
        ids = {one.name for one in command.params if "ID" in str(one.metavar)}
        if "company_id" in ids:
            assert {one.parameter for one in FOREIGN if one.command == name} == ids - {"company_id"}, name


class House(NamedTuple):
    fleet: Fleet
    ids: dict[IdKind, UUID]
    letter_id: str
    deal_id: int


@pytest.fixture(scope="module")
def houses(database: Database) -> list[House]:
    """Two companies, each with a route and a withheld message. No command here changes anything of theirs."""
    return [_house(database, datetime.now(UTC).replace(microsecond=0)) for _ in range(2)]


@pytest.fixture
def letters(houses: list[House], jobs: JobQueue, now: datetime) -> None:
    """A dead letter about the route of each."""
    for house in houses:
        job = build_plan_job(house.ids["rte"], house.fleet.company_id)
        jobs.put(job)
        message = jobs.client.hget(messages_key("plans"), house.letter_id)
        assert isinstance(message, bytes)
        jobs.client.hset(dead_letter_messages_key("plans"), house.letter_id, message)
        jobs.client.zadd(dead_letters_key("plans"), {house.letter_id: now.timestamp() * 1000})


def _house(database: Database, now: datetime) -> House:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
        message_id = planned_by_hand(connection, route_id, now=now)
        endpoint = make_endpoint(connection, fleet.live).endpoint
        event_id = send_test(connection, fleet.company_id, endpoint.id, DOT, now=now)
        end_deliveries(connection, fleet.company_id)
        deal = connection.execute(
            "INSERT INTO deals (company_id, brand, net_price) VALUES (%s, 'Roadhawk', 3) RETURNING id",
            (fleet.company_id,),
        )
        (deal_id,) = deal.fetchone() or ()
        connection.execute("UPDATE messages SET withheld_since = %s, retry_at = NULL WHERE id = %s", (now, message_id))
        connector = added(
            connection, fleet.live, "traccar", "http://127.0.0.1:9", {"forward_token": "a-token-of-forwarding"}
        )
        held_id, run_id = _price_file(connection, fleet.company_id, now)
        buy_planned_fuel(connection, fleet.company_id)
        (fill,) = named(connection).execute("SELECT id FROM fills WHERE company_id = %s", (fleet.company_id,))
        replay_id = ask_for_replay(connection, fleet, now=now)
    letter_id = build_plan_job(route_id, fleet.company_id).key
    assert letter_id is not None
    ids: dict[IdKind, UUID] = {
        "veh": fleet.trucks[0],
        "drv": fleet.drivers[0],
        "rte": route_id,
        "msg": message_id,
        "whe": endpoint.id,
        "evt": event_id,
        "con": connector.id,
        "hld": held_id,
        "imp": run_id,
        "fil": fill.id,
        "rpl": replay_id,
    }
    return House(fleet, ids, letter_id, deal_id)


def _price_file(connection: Connection, company_id: UUID, now: datetime) -> tuple[UUID, UUID]:
    """A price that is held, and the file that it came with."""
    held_id, run_id = new_id(), new_id()
    connection.execute(
        "INSERT INTO held_prices (id, company_id, kind, code_set, code, place, candidates, price, effective_at,"
        " profile, reason, held_at) VALUES (%s, %s, 'net', 'store', '7', 'Joliet', '{}', 3, %s, 'loves', 'far', %s)",
        (held_id, company_id, now, now),
    )
    connection.execute(
        "INSERT INTO price_runs (id, company_id, file_name, file_hash, profile, actor, ended_at, created, updated,"
        " unchanged, held, refused, rejected)"
        " VALUES (%s, %s, 'prices.csv', 'x', 'loves', 'ann', %s, 0, 0, 0, 1, 0, '[]')",
        (run_id, company_id, now),
    )
    return held_id, run_id


def state_of(house: House, database: Database, jobs: JobQueue) -> list[Any]:
    """All that the company has and that commands can change."""
    tables = (
        *("routes", "vehicles", "drivers", "deals", "mappings", "messages", "audit_log"),
        *("webhook_endpoints", "webhook_events", "webhook_deliveries", "connectors"),
        *("held_prices", "price_runs", "fills"),
    )
    query = " UNION ALL ".join(
        f"SELECT (to_jsonb(it) - %(moving)s::text[])::text AS row FROM {table} it WHERE company_id = %(id)s"
        for table in tables
    )
    with database.transaction() as connection:
        rows = named(connection).execute(query, {"id": house.fleet.company_id, "moving": MOVED_BY_WORKERS}).fetchall()
    letter = jobs.client.zscore(dead_letters_key("plans"), house.letter_id)
    return [*sorted(row.row for row in rows), letter]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda one: " ".join((one.command, one.parameter, *one.more)))
def test_an_id_of_another_company_is_as_one_that_never_existed(
    cli: Cli, houses: list[House], database: Database, jobs: JobQueue, foreign: Foreign, form: tuple[str, ...]
) -> None:
    own, other = houses
    before = state_of(other, database, jobs)

    def answer(text: str) -> Result:
        (parameter,) = [one for one in COMMANDS[foreign.command].params if one.name == foreign.parameter]
        owned = {OWN_ENDPOINT: shown_id("whe", own.ids["whe"]), OWN_CONNECTOR: shown_id("con", own.ids["con"])}
        more = [owned.get(one, one) for one in foreign.more]
        option = [parameter.opts[0]] if parameter.param_type_name == "option" else []
        given = [*foreign.command.split(), "--company", own.fleet.shown_company_id, *option, text, *more, *form]
        result = cli(*given)
        return Result(result.status, result.out.replace(text, "ID"), result.err.replace(text, "ID"))

    if foreign.kind == "letter":
        texts = other.letter_id, f"plans.build {new_id()}"
    elif foreign.kind == "deal":
        texts = str(other.deal_id), "987654321"
    else:
        texts = shown_id(foreign.kind, other.ids[foreign.kind]), shown_id(foreign.kind, new_id())
    answers = [answer(text) for text in texts]

    assert answers[0] == answers[1]
    assert state_of(other, database, jobs) == before


NAMING = [one for one in FOREIGN if one.kind != "letter"]
"""Dead letters are searched by their id: an id that nobody knows finds none."""


@pytest.mark.parametrize("typo", ["typo", "{}_typo", "{}_0123456789abcdef0123456789abcde", "ST_TYPO"])
@pytest.mark.parametrize("foreign", NAMING, ids=lambda one: " ".join((one.command, one.parameter, *one.more)))
def test_a_mistyped_id_is_told_as_it_was_typed(cli: Cli, houses: list[House], foreign: Foreign, typo: str) -> None:
    own, _ = houses
    text = typo.format(foreign.kind)
    (parameter,) = [one for one in COMMANDS[foreign.command].params if one.name == foreign.parameter]
    owned = {OWN_ENDPOINT: shown_id("whe", own.ids["whe"]), OWN_CONNECTOR: shown_id("con", own.ids["con"])}
    option = [parameter.opts[0]] if parameter.param_type_name == "option" else []
    more = [owned.get(one, one) for one in foreign.more]
    result = cli(*foreign.command.split(), "--company", own.fleet.shown_company_id, *option, text, *more)

    assert result.status != 0
    assert text in " ".join(result.err.split())
    assert "00000000" not in result.out + result.err
