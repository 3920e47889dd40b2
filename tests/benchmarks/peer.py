"""The textbook peer: the same tables and checks, one transaction and one job for each POST, one route for each job.

Starlette with synchronous SQLModel sessions in its thread pool, and Dramatiq with the stock Redis broker, each with
the defaults of its documentation. It answers 202 without waiting for the import.
"""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from uuid import UUID

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from sqlmodel import Session, col, create_engine, select
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as Endpoint

from domain.contract.checking import Invalid, read_body
from domain.contract.shapes import RATE_LIMIT_REQUESTS, RouteInput
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.tables.accounts import ApiKeys, Companies
from domain.tables.fleet import Drivers, Vehicles
from domain.tables.routes import Routes

engine = create_engine(os.environ["FUELROUTE_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://"))
limits = redis.Redis.from_url(os.environ["FUELROUTE_REDIS_URL"])
dramatiq.set_broker(RedisBroker(url=os.environ["FUELROUTE_REDIS_URL"]))

_PREFIX_LENGTH = 17


@dramatiq.actor(queue_name="peer")
def import_route(route_id: str) -> None:
    """Matches one route."""
    with Session(engine) as session:
        route = session.get_one(Routes, UUID(route_id))
        company = session.get_one(Companies, route.company_id)
        vehicle = session.exec(
            select(Vehicles).where(
                Vehicles.company_id == route.company_id, Vehicles.unit_number == route.vehicle_unit_number
            )
        ).first()
        driver = session.exec(
            select(Drivers).where(Drivers.company_id == route.company_id, Drivers.name == route.driver_name)
        ).first()
        if vehicle is None or driver is None:
            route.status = RouteStatus.PENDING_MAPPING
        elif route.scheduled_start > datetime.now(UTC) + timedelta(days=company.import_window_days):
            route.status = RouteStatus.PENDING_WINDOW
        else:
            route.status, route.vehicle_id, route.driver_id = RouteStatus.DRAFT, vehicle.id, driver.id
        session.commit()


def _admit(session: Session, header: str) -> ApiKeys | None:
    key = header.removeprefix("Bearer ")
    found = session.exec(
        select(ApiKeys).where(ApiKeys.prefix == key[:_PREFIX_LENGTH], col(ApiKeys.revoked_at).is_(None))
    ).first()
    return found if found is not None and found.hash == hashlib.sha256(key.encode()).digest() else None


def _within_limit(key_id: UUID) -> bool:
    """A window of a fixed minute."""
    name = f"peer:{key_id}:{datetime.now(UTC):%H%M}"
    used = int(limits.incr(name))
    if used == 1:
        limits.expire(name, 60)
    return used <= RATE_LIMIT_REQUESTS


def _create_route(header: str, body: bytes) -> Response:
    with Session(engine) as session:
        key = _admit(session, header)
        if key is None:
            return JSONResponse({"code": "unauthorized"}, 401)
        if not _within_limit(key.id):
            return JSONResponse({"code": "rate_limited"}, 429)
        try:
            pushed = read_body(body, RouteInput)
        except Invalid as invalid:
            return JSONResponse({"code": "validation_error", "detail": str(invalid)}, 400)
        route = Routes(
            id=new_id(),
            company_id=key.company_id,
            environment=key.environment,
            external_id=pushed.external_id,
            reference=pushed.reference,
            vehicle_unit_number=pushed.vehicle.unit_number,
            driver_name=pushed.driver.name,
            scheduled_start=pushed.scheduled_start,
            stops=[
                {"name": stop.name, "address": stop.address, "latitude": stop.latitude, "longitude": stop.longitude}
                for stop in pushed.stops
            ],
            status=RouteStatus.PENDING,
        )
        session.add(route)
        session.commit()
        session.refresh(route)
        import_route.send(route.id.hex)
        return Response(write(route.model_dump()), 202, media_type="application/json")


async def create_route(request: Request) -> Response:
    body = await request.body()
    return await run_in_threadpool(_create_route, request.headers.get("authorization", ""), body)


app = Starlette(routes=[Endpoint("/v1/routes", create_route, methods=["POST"])])
