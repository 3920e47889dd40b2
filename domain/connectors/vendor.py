"""The frame that each vendor of telematics fills: what it needs to know, how it is asked, what it gives.

A vendor is one class in a file of its own. It speaks the vendor's HTTP and turns the answers into `VendorPage`s; it
stores nothing, waits for nothing, and knows no vehicle of ours. The process that polls makes one object for each
connector and keeps it as long as it holds the lease, so an object may remember a session.

    class Acme(Vendor):
        kind, title, ... = "acme", "Acme Telematics", ...

        async def poll(self, cursor, access, http):
            answer = await http.get(f"{access.url}/positions", headers=..., query={"after": cursor})
            return VendorPage(...)

`VENDORS` in `kinds.py` lists the classes.
"""

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeVar

from domain.errors import FuelrouteError

MPH_PER_KNOT = 1852 / 1609.344
MPH_PER_KMH = 1000 / 1609.344
"""A nautical mile is 1852 m, a mile 1609.344 m: NIST SP 811 (2008), appendix B.8."""

FieldName = str
Result = TypeVar("Result")


class CredentialField(NamedTuple):
    """One value that a person gives for a connector, such as an API token."""

    name: FieldName
    title: str
    help: str
    secret: bool = True
    """False: shown to people later, such as a user name or a database. Both are stored sealed."""
    required: bool = True
    many_lines: bool = False


_NO = "no"
POSITIONS_FIELD = CredentialField(
    "positions",
    "Positions",
    f"Leave it empty. `{_NO}`: the connector is only for messages to drivers in their cab.",
    secret=False,
    required=False,
)
"""The field of vendors whose app takes messages."""


class Access(NamedTuple):
    """The address and the credentials with which a connector asks its vendor."""

    url: str
    """Without a slash at its end."""
    credentials: Mapping[FieldName, str]


class VendorVehicle(NamedTuple):
    """A vehicle as its vendor knows it."""

    key: str
    """The vendor's id, which never changes."""
    name: str | None = None
    vin: str | None = None
    external_ids: Sequence[str] = ()
    """The ids by which the company says which vehicle of ours it is: a unit number, or a vehicle id `veh_...`."""
    other_ids: Sequence[str] = ()
    """Ids of other systems, such as of maintenance. One that is the unit number of another vehicle of ours makes the
    match doubtful; none makes a match by itself."""


class VendorFix(NamedTuple):
    """One position, as its vendor tells it, in our units. `domain.connectors.fixes` judges the values."""

    vehicle_key: str
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None = None
    fuel_percent: float | None = None
    accuracy_meters: float | None = None
    fuel_measured_at: datetime | None = None
    """When the fuel level was measured, where the vendor tells that apart; None: with the fix."""


class VendorLevel(NamedTuple):
    """A fuel level with a time of its own."""

    vehicle_key: str
    measured_at: datetime
    percent: float


class VendorPage(NamedTuple):
    """One answer of a vendor."""

    vehicles: Sequence[VendorVehicle]
    """The vehicles of the fixes, at least."""
    fixes: Sequence[VendorFix]
    cursor: str | None = None
    """The cursor of the next question. It is stored in the transaction that stores these fixes."""
    has_more: bool = False
    """True: the next page may be asked for at once."""
    refused: Mapping[str, int] = {}
    """Entries that could not be read at all, by reason: `unreadable` is the usual one."""
    levels: Sequence[VendorLevel] = ()
    """The fuel levels of the page with times of their own, also those that no fix of the page has."""
    remark: str | None = None
    """A sentence for people on what was noticed, such as that the cursor was of another source."""


class VendorAnswer(NamedTuple):
    """An answer over HTTP; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class VendorHttp(Protocol):
    """HTTP to a vendor: judged addresses, bounded in bytes and time. It raises a VendorFault for every answer that is
    not 2xx; `VendorRefusal` and `VendorHurried` are the ones of 401, 403 and 429."""

    async def request(
        self,
        method: Literal["GET", "POST"],
        url: str,
        *,
        headers: Mapping[str, str] = {},
        query: Mapping[str, str | None] = {},
        body: bytes | None = None,
    ) -> VendorAnswer: ...

    async def get(
        self, url: str, *, headers: Mapping[str, str] = {}, query: Mapping[str, str | None] = {}
    ) -> VendorAnswer: ...

    async def read(self, work: Callable[[bytes], Result], body: bytes) -> Result:
        """The result of reading a body, off the event loop where it is large. Raises VendorFault, also for a body with
        too many values."""
        ...


class InboundRequest(NamedTuple):
    """A request that a vendor made to `POST /telematics/{connector}`; names of headers are in lower case."""

    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class Vendor(ABC):
    """A vendor of telematics."""

    kind: ClassVar[str]
    title: ClassVar[str]
    default_url: ClassVar[str | None] = None
    """The vendor's own cloud. None: a person gives the address."""
    fields: ClassVar[Sequence[CredentialField]]
    receives: ClassVar[bool] = False
    """True: it understands requests to `POST /telematics/{connector}`."""
    least_wait_seconds: ClassVar[float] = 5.0
    """The least wait between two polls, unless a page `has_more`."""

    @abstractmethod
    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        """The next page after `cursor`; None asks for the newest positions. Raises VendorFault."""

    async def test(self, access: Access, http: VendorHttp) -> str:
        """Asks the vendor once, and returns the sentence that tells of the success. It stores nothing. Raises
        VendorFault."""
        page = await self.poll(None, access, http)
        return f"{self.title} answered with {len(page.vehicles)} vehicles and {len(page.fixes)} positions"

    def faults_of(self, credentials: Mapping[FieldName, str]) -> str | None:
        """The fault of credentials that a person gave, beside fields that are missing; None: there is none."""
        if credentials.get(POSITIONS_FIELD.name) not in (None, _NO):
            return f"{POSITIONS_FIELD.title} is left empty, or `{_NO}`"
        return None

    def asks(self, credentials: Mapping[FieldName, str]) -> bool:
        """True when these credentials serve to poll. A vendor that only sends is never asked."""
        return credentials.get(POSITIONS_FIELD.name) != _NO

    def source_of(self, credentials: Mapping[FieldName, str]) -> str:
        """The part of the credentials that says where positions come from, such as a database: a cursor belongs to it.
        Empty: they do not say."""
        return ""

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        """Checks that the vendor made the request, in constant time. Raises ForgedRequest."""
        raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        """The positions of a request that was verified. Raises UnreadableAnswer."""
        raise UnreadableAnswer(self.title)


# --- Faults ----------------------------------------------------------------------------------------------------


class VendorFault(FuelrouteError):
    """The vendor did not answer as it should. The text is the sentence for people."""

    what_to_do = "nothing: Fuelroute tries again by itself"
    status: int | None = None

    def __init__(self, sentence: str, *, what_to_do: str | None = None, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        if what_to_do is not None:
            self.what_to_do = what_to_do


class VendorRefusal(VendorFault):
    """It does not take the credentials."""

    what_to_do = "make a new token at the vendor, with the right to read vehicles and their positions, and set it here"


class VendorHurried(VendorFault):
    """It asks to be asked less often."""

    def __init__(self, sentence: str, retry_after_seconds: float | None) -> None:
        super().__init__(sentence, status=429)
        self.retry_after_seconds = retry_after_seconds


class UnreadableAnswer(VendorFault):
    """The body of an answer is not what the vendor documents."""

    what_to_do = "check the address; if it is right, the vendor is disturbed or has changed its answers"

    def __init__(self, title: str) -> None:
        super().__init__(f"{title} gave an answer that cannot be read")


class ForgottenCursor(VendorFault):
    """The vendor does not know the cursor any more. The next poll begins with the newest positions."""


class ForgedRequest(Exception):
    """A request without the vendor's signature or token."""


# --- Helpers of vendors ------------------------------------------------------------------------------------------


def is_same_secret(given: str | None, expected: str | None) -> bool:
    """True when both are the same secret; an empty one is none. In constant time."""
    return bool(expected) and hmac.compare_digest((given or "").encode(), (expected or "").encode())
