"""Shared by the tests of connectors: a connector in the test's transaction, its lease, one page from a fake vendor."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import Connector, ConnectorValues, add_connector, open_access
from domain.connectors.kinds import VENDORS
from domain.connectors.leases import ConnectorRow, lease_connectors
from domain.connectors.page_storage import FeedRules, StoredPage, store_page
from domain.connectors.vendor import Vendor, VendorPage
from domain.connectors.vendor_http import BoundedHttp
from domain.database.connections import Connection, Tenant
from tests.factories import DOT

LOOPBACK = AllowedHosts.read("127.0.0.0/8")
RULES = FeedRules(near_meters=250.0, early=timedelta(hours=12))


def added(
    connection: Connection,
    tenant: Tenant,
    kind: str,
    url: str,
    credentials: Mapping[str, str],
) -> Connector:
    values = ConnectorValues(kind, credentials, url=url)
    return add_connector(connection, tenant, values, DOT, allowed=LOOPBACK, contacts=IN_CLEAR)


def leased(connection: Connection, connector: Connector, *, now: datetime, by: str = "test") -> ConnectorRow:
    """The lease of this connector; others that can be had are let be."""
    found = lease_connectors(connection, by=by, kinds=VENDORS, most=1000, now=now)
    return next(one for one in found if one.id == connector.id)


def polled(
    lease: ConnectorRow,
    cursor: str | None,
    vendor: Vendor | None = None,
    *,
    seconds: float = 10.0,
    most_bytes: int = 1 << 20,
) -> VendorPage:
    """One page from the vendor, over HTTP. Raises VendorFault."""

    async def poll() -> VendorPage:
        http = BoundedHttp(allowed=LOOPBACK, seconds=seconds, most_bytes=most_bytes)
        try:
            asked = vendor or VENDORS[lease.kind]()
            return await asked.poll(cursor, open_access(lease.url, lease.credentials, IN_CLEAR), http)
        finally:
            await http.close()

    return asyncio.run(poll())


def taken(connection: Connection, lease: ConnectorRow, page: VendorPage, *, now: datetime) -> StoredPage:
    return store_page(connection, lease, page, due_at=now, rules=RULES, now=now)
