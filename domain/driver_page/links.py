"""The link to a driver's page, and when its token opens the page."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class DriverLink(NamedTuple):
    """The right to see one trip's page, and to answer on it."""

    id: UUID
    company_id: UUID
    environment: str
    route_id: UUID
    driver_id: UUID
    expires_at: datetime
    """When it expires: for a trip that has ended some hours after its end."""


LINKED_ROUTE = """driver_links l CROSS JOIN LATERAL (
        SELECT linked.xmin AS written_by, linked.* FROM routes linked
        WHERE linked.id = l.route_id AND linked.company_id = l.company_id
          AND linked.environment = l.environment AND linked.driver_id = l.driver_id OFFSET 0) AS r"""
"""SQL of a link `l` and its route `r`, while the link's driver has the route. `written_by` is the transaction that
wrote the route's row as it is."""

EXPIRY = """CASE WHEN r.status IN ('completed', 'canceled', 'error')
    THEN least(l.expires_at, coalesce(r.completed_at, r.updated_at) + %(after_end)s::interval)
    ELSE l.expires_at END"""
"""SQL of the time when a link `l` of a route `r` expires."""
