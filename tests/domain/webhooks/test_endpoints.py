"""Endpoints and their secrets: bounded, sealed, and of one company only."""

import base64
import secrets as random
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr

from domain import clock
from domain.accounts.companies import RetiredCompany, retire_company
from domain.accounts.contacts import IN_CLEAR, Contacts, is_sealed
from domain.database.connections import Connection
from domain.settings import Settings
from domain.webhooks.deliveries import claim_deliveries, release_claims
from domain.webhooks.delivery_log import send_test
from domain.webhooks.endpoints import (
    ENDPOINT_SECRETS,
    ENDPOINTS,
    FORMER_ENDPOINT_SECRETS,
    MOST_ENDPOINTS,
    MOST_FORMER_SECRETS,
    EndpointChanges,
    UnknownEndpoint,
    UnusableEndpoint,
    change_endpoint,
    delivery_jobs,
    rotate_secret,
)
from tests.domain.webhooks.endpoints import HERE, make_endpoint
from tests.factories import DOT, Fleet, make_fleet
from tests.rows import named


def new_key() -> str:
    return base64.urlsafe_b64encode(random.token_bytes(32)).decode()


def stored(connection: Connection, fleet: Fleet) -> tuple[str, str | None]:
    query = "SELECT secret, former_secret FROM webhook_endpoints WHERE company_id = %s"
    row = named(connection).execute(query, (fleet.company_id,)).fetchone()
    assert row is not None
    return row.secret, row.former_secret


def test_a_company_has_a_limited_number_of_endpoints_in_each_environment(connection: Connection, fleet: Fleet) -> None:
    for _ in range(MOST_ENDPOINTS):
        make_endpoint(connection, fleet.live)
    with pytest.raises(UnusableEndpoint, match="remove one first"):
        make_endpoint(connection, fleet.live)
    make_endpoint(connection, fleet.sandbox)
    make_endpoint(connection, make_fleet(connection).live)


def test_a_retired_company_adds_none(connection: Connection, fleet: Fleet, now: datetime) -> None:
    retire_company(connection, fleet.company_id, DOT, now=now)

    with pytest.raises(RetiredCompany):
        make_endpoint(connection, fleet.live)


def test_secrets_are_sealed_and_sign_all_the_same(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    key = new_key()
    sealing = settings.model_copy(update={"contact_key": SecretStr(key)})
    made = make_endpoint(connection, fleet.live, contacts=Contacts(key))
    rotated = rotate_secret(connection, fleet.company_id, made.endpoint.id, DOT, contacts=Contacts(key), now=now)
    send_test(connection, fleet.company_id, made.endpoint.id, DOT, now=now)

    assert all(is_sealed(secret or "") for secret in stored(connection, fleet))
    batch = claim_deliveries(connection, made.endpoint.id, most=1, settings=sealing, now=now + timedelta(minutes=1))
    assert batch is not None
    assert batch.secrets == [rotated.secret, made.secret]
    assert made.secret.startswith("whsec_")
    assert len(base64.b64decode(made.secret.removeprefix("whsec_"))) == 32


def test_further_rotations_within_a_day_end_no_secret(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    key = new_key()
    contacts, sealing = Contacts(key), settings.model_copy(update={"contact_key": SecretStr(key)})
    made = make_endpoint(connection, fleet.live, contacts=contacts)
    endpoint_id = made.endpoint.id
    send_test(connection, fleet.company_id, endpoint_id, DOT, now=now)

    def rotated(at: datetime) -> str:
        return rotate_secret(connection, fleet.company_id, endpoint_id, DOT, contacts=contacts, now=at).secret

    def signing(at: datetime) -> Sequence[str]:
        batch = claim_deliveries(connection, endpoint_id, most=1, settings=sealing, now=at)
        assert batch is not None
        release_claims(connection, endpoint_id, batch.claimed, now=at)
        return batch.secrets

    second, third = rotated(now), rotated(now + timedelta(hours=23))
    assert signing(now + timedelta(hours=23)) == [third, second, made.secret]
    assert all(is_sealed(secret or "") for secret in stored(connection, fleet))
    later = now + timedelta(hours=47)
    assert signing(later) == [third]
    secrets = [third, *(rotated(later) for _ in range(MOST_FORMER_SECRETS))]
    with pytest.raises(UnusableEndpoint, match="5 former secrets still sign"):
        rotated(later)
    assert signing(later) == secrets[::-1]


def test_housekeeping_seals_secrets_with_the_newest_key(connection: Connection, fleet: Fleet, now: datetime) -> None:
    first, second = new_key(), new_key()
    made = make_endpoint(connection, fleet.live)
    rotate_secret(connection, fleet.company_id, made.endpoint.id, DOT, contacts=IN_CLEAR, now=now)

    for keys in (first, f"{second},{first}"):
        contacts = Contacts(keys)
        for column in (ENDPOINT_SECRETS, FORMER_ENDPOINT_SECRETS):
            column.seal(connection, contacts)
        current, former = stored(connection, fleet)
        assert current.startswith(str(contacts.prefix))
        assert contacts.open(former) == made.secret


def test_a_secret_under_an_unknown_key_signs_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    made = make_endpoint(connection, fleet.live, contacts=Contacts(new_key()))
    send_test(connection, fleet.company_id, made.endpoint.id, DOT, now=now)
    other = settings.model_copy(update={"contact_key": SecretStr(new_key())})

    batch = claim_deliveries(connection, made.endpoint.id, most=1, settings=other, now=now + timedelta(minutes=1))

    assert batch is not None
    assert batch.secrets == []


def test_a_change_leaves_the_other_values(connection: Connection, fleet: Fleet) -> None:
    made = make_endpoint(connection, fleet.live, "https://a.example.com/", "route.error")
    company_id, endpoint_id = fleet.company_id, made.endpoint.id

    def change(**values: object) -> tuple[str, str, list[str] | None]:
        changes = EndpointChanges(**values)  # type: ignore[arg-type]
        one = change_endpoint(connection, company_id, endpoint_id, changes, DOT, allowed=HERE, now=clock.now())
        return one.url, one.description, one.event_types

    assert change(description="ours") == ("https://a.example.com/", "ours", ["route.error"])
    assert change(event_types=["route.held", "route.error"])[2] == ["route.held", "route.error"]
    assert change(url="https://b.example.com/") == ("https://b.example.com/", "ours", ["route.held", "route.error"])
    assert change(event_types=[])[2] is None
    with pytest.raises(UnusableEndpoint, match="there is no event type 'x'"):
        change(event_types=["x"])
    with pytest.raises(UnusableEndpoint, match="not on the public internet"):
        change(url="https://192.168.0.1/")


def test_an_endpoint_belongs_to_one_company(connection: Connection, fleet: Fleet) -> None:
    made = make_endpoint(connection, fleet.live)
    stranger = make_fleet(connection).company_id

    assert ENDPOINTS.all(connection, stranger) == []
    with pytest.raises(UnknownEndpoint):
        ENDPOINTS.find(connection, stranger, made.endpoint.id)
    changes = EndpointChanges(description="x")
    with pytest.raises(UnknownEndpoint):
        change_endpoint(connection, stranger, made.endpoint.id, changes, DOT, allowed=HERE, now=clock.now())
    assert [job.company_id for job in delivery_jobs(connection, [fleet.company_id, stranger])] == [fleet.company_id]
