"""Asks the vendor of a connector one question, whose answer a person reads. Nothing is stored."""

import asyncio

from domain.accounts.allowed_hosts import AllowedHosts
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, VendorFault
from domain.connectors.vendor_http import BoundedHttp
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

QUESTION_SECONDS = 20.0

MOST_MEGABYTES = 2
_MOST_VALUES = 100_000
"""Most values in the answer, which a person reads three units of. A large fleet's answer is correct and too much for
that."""


async def ask_vendor(kind: str, access: Access, allowed: AllowedHosts, *, seconds: float = QUESTION_SECONDS) -> str:
    """The sentence about the success. Raises VendorFault, with a sentence for the person, if the vendor does not answer
    well."""
    vendor = VENDORS[kind]()
    if not vendor.asks(access.credentials):
        raise VendorFault(
            f"this connector asks {vendor.title} for no positions",
            what_to_do="let the vendor send a position, or a message go to a driver",
        )
    http = BoundedHttp(allowed=allowed, seconds=seconds, most_bytes=MOST_MEGABYTES << 20, most_values=_MOST_VALUES)
    try:
        async with asyncio.timeout(seconds):
            return await vendor.test(access, http)
    except VendorFault:
        raise
    except TimeoutError:
        raise VendorFault(f"it did not answer within {seconds:g} s") from None
    except Exception as error:  # whatever an answer does to the vendor's class is the vendor's fault
        log.exception("connectors.try_failed", kind=kind)
        raise VendorFault(f"its answer could not be understood ({type(error).__name__})") from None
    finally:
        await http.close()
