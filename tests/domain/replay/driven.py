"""Driven trips for replays: plans with retail prices and deals, and completed routes whose drivers had them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from domain.audit.entries import Actor
from domain.database.connections import Connection, Tenant
from domain.planning.explanation import Explanation, pack_explanation
from domain.planning.fuel_plan import compute_plan
from domain.replay.replays import start_replay
from domain.replay.terms import Terms, replay_terms
from domain.savings.spans import month_of
from domain.stations.prices import Deal, PriceParts
from tests.domain.helpers import imported
from tests.domain.planning.plans import Priced, inputs, meridian, priced, usual_policy
from tests.factories import Fleet

ANN = Actor("ann@example.com")
WITHOUT_DEALS = Terms(without_deals=("all",))
MESA, STAR = Deal(0.30, None, 1, "Mesa"), Deal(None, 3.05, 2, None)
"""A discount of a brand, and the net price of one station."""

STATIONS = (
    (priced(60, 3.90, brand="Mesa"), (MESA,)),
    (priced(180, 3.35, brand="Magnolia"), ()),
    (priced(210, 3.60, brand="Mesa", east_miles=1), (MESA,)),
    (priced(330, 3.45, brand="Star", east_miles=2), (STAR,)),
    (priced(420, 3.70, brand="Mesa"), (MESA,)),
    (priced(560, 3.30, brand="Magnolia", state="OK"), ()),
)


def explained(stations: Sequence[tuple[Priced, Sequence[Deal]]] = STATIONS, **options: Any) -> Explanation:
    """The explanation of a plan over 600 miles past these stations, each with its retail price and the deals there."""
    given = inputs(meridian(600), *(one for one, _ in stations), **options)
    deals = {one.station.station_id: held for one, held in stations}
    offers = []
    for offer in given.offers:
        parts = PriceParts(offer.net_price, deals[offer.station.station_id])
        offers.append(offer._replace(net_price=parts.net_price or 0.0, parts=parts))
    return compute_plan(replace(given, offers=offers)).explanation()


def store_driven(
    connection: Connection, tenant: Tenant, explanation: bytes | None, *, now: datetime, **route: Any
) -> UUID:
    """A completed route whose driver had a plan with this explanation."""
    route_id = imported(connection, tenant, now=now, **route)
    connection.execute(
        "WITH plan AS (INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document,"
        " explanation, timeline, fuel_percent) SELECT gen_random_uuid(), company_id, environment, id, 1, %(at)s, '{}',"
        " %(explanation)s, '[]', 50 FROM routes WHERE id = %(route_id)s RETURNING id)"
        " INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id, origin,"
        " destination, gallons, cost_cents) SELECT r.id, r.company_id, r.environment, plan.id, %(at)s, r.vehicle_id,"
        " r.driver_id, 'A', 'B', 100, 100 FROM routes r, plan WHERE r.id = %(route_id)s",
        {"at": now, "explanation": explanation, "route_id": route_id},
    )
    connection.execute("UPDATE routes SET status = 'completed', updated_at = %s WHERE id = %s", (now, route_id))
    return route_id


def ask_for_replay(
    connection: Connection,
    fleet: Fleet,
    after: Terms = WITHOUT_DEALS,
    *,
    now: datetime,
    trips: int = 1,
    **options: Any,
) -> UUID:
    """A replay of some driven trips of the month."""
    for number in range(trips):
        store_driven(connection, fleet.live, pack_explanation(explained()), now=now, externalId=f"replayed-{number}")
    weighs_deals = options.pop("weighs_deals", False)
    terms = replay_terms(usual_policy(), Terms(), Terms() if weighs_deals else after, weighs_deals=weighs_deals)
    span = month_of(now.date(), "UTC")
    return start_replay(connection, fleet.live, span, terms, ANN, by_workers=True, now=now, **options)
