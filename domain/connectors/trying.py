"""A try of a connector: one question to its vendor, whose answer a person reads. Nothing is stored."""

import asyncio

from domain.accounts.allowed_hosts import AllowedHosts
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, VendorFault
from domain.connectors.vendor_http import BoundedHttp

TRY_SECONDS = 20.0


async def try_connector(kind: str, access: Access, allowed: AllowedHosts, *, seconds: float = TRY_SECONDS) -> str:
    """The sentence that tells of the success. Raises VendorFault."""
    vendor = VENDORS[kind]()
    if not vendor.asks(access.credentials):
        raise VendorFault(
            f"this connector asks {vendor.title} for no positions",
            what_to_do="let the vendor send a position, or a message go to a driver",
        )
    http = BoundedHttp(allowed=allowed, seconds=seconds)
    try:
        async with asyncio.timeout(seconds):
            return await vendor.test(access, http)
    except TimeoutError:
        raise VendorFault(f"it did not answer within {seconds:g} s") from None
    finally:
        await http.close()
