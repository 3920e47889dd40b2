"""Previews of loads between the demo's truck stops, computed in the transaction of a test."""

from contextlib import nullcontext
from datetime import datetime
from typing import Any

from domain.contract.checking import read_body
from domain.database.connections import Connection, Tenant
from domain.encoding import write
from domain.planning.planner import Planner
from domain.previews.load_preview import Previewed, preview_load
from domain.previews.shapes import MOST_PASSES, PreviewInput
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces
from tests.domain.routes.trip import ROADS
from tests.factories import JOLIET, NEWARK, put_demo_stations


def load(**changes: Any) -> dict[str, Any]:
    """A body that asks for the fuel of a load from Joliet to Newark, for any truck that is 40 % full."""
    return {"stops": [JOLIET, NEWARK], "vehicle": {"fuelPercent": 40}, **changes}


def read_load(**body: Any) -> PreviewInput:
    return read_body(write(body), PreviewInput)


class Previews:
    """Previews for a tenant as of a moment, past the demo's stations alone."""

    def __init__(self, connection: Connection, settings: Settings, tenant: Tenant, now: datetime) -> None:
        self.connection, self.settings, self.tenant, self.now = connection, settings, tenant, now
        put_demo_stations(connection, now=now)

    def of(self, *, now: datetime | None = None, tenant: Tenant | None = None, **body: Any) -> Previewed:
        planner = Planner(self.settings, lambda: nullcontext(self.connection), ROADS, StationPlaces(), MOST_PASSES)
        asked = read_load(**body)
        return preview_load(planner, tenant or self.tenant, asked, now=now or self.now)
