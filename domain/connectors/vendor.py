"""The frame that each vendor of telematics fills: what it needs to know, how it is asked, what it gives.

A vendor is one class in a module of its own in `kinds`. It speaks the vendor's HTTP and turns the answers into
`VendorPage`s; it stores nothing, waits for nothing, and knows no vehicle of ours. The process that polls makes one
object for each connector and keeps it as long as it holds the lease, so an object may remember a session.

    class Acme(Vendor):
        kind, title, ... = "acme", "Acme Telematics", ...

        async def poll(self, cursor, access, http):
            answer = await http.get(f"{access.url}/positions", headers=..., query={"after": cursor})
            return VendorPage(...)

`VENDORS` in `kinds` has the classes of all modules.
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
    """False for a value that people see again later, such as a user name or a database. Both kinds are stored
    sealed."""
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
    """The address, without a slash at its end unless it is asked as it is."""
    credentials: Mapping[FieldName, str]


class VendorVehicle(NamedTuple):
    """A vehicle in its vendor's words."""

    key: str
    """The vendor's id, which never changes."""
    name: str | None = None
    vin: str | None = None
    external_ids: Sequence[str] = ()
    """Ids by which the company says which of our vehicles it is: a unit number, or a vehicle id `veh_...`."""
    other_ids: Sequence[str] = ()
    """Ids of other systems, such as of maintenance. One that equals another vehicle's unit number makes the match
    doubtful; none matches by itself."""


class VendorFix(NamedTuple):
    """One position from a vendor, in our units. `domain.connectors.fixes` judges the values."""

    vehicle_key: str
    recorded_at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None = None
    fuel_percent: float | None = None
    accuracy_meters: float | None = None
    fuel_measured_at: datetime | None = None
    """When the fuel level was measured, if the vendor gives that time; None if with the fix."""


class VendorLevel(NamedTuple):
    """A fuel level with a time of its own."""

    vehicle_key: str
    measured_at: datetime
    percent: float


class VendorPage(NamedTuple):
    """One answer of a vendor."""

    vehicles: Sequence[VendorVehicle]
    """The vehicles of the fixes, perhaps more."""
    fixes: Sequence[VendorFix]
    cursor: str | None = None
    """The cursor for the next question. It is stored in the transaction that stores these fixes."""
    has_more: bool = False
    """True if the next page may be asked for at once."""
    refused: Mapping[str, int] = {}
    """Entries that could not be read at all, counted by reason; the usual one is `unreadable`."""
    levels: Sequence[VendorLevel] = ()
    """The fuel levels of the page with times of their own, with or without a fix on the page."""
    remark: str | None = None
    """A sentence for people about something noticed, such as that the cursor was of another source."""


class VendorAnswer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: Mapping[str, str]
    """The headers, names in lower case. Values of one name are joined by a comma and a space."""
    body: bytes


class VendorHttp(Protocol):
    """HTTP to a vendor: judged addresses, bounded in bytes and time. It raises VendorFault for every answer that is not
    2xx: VendorRefusal for 401 and 403, VendorHurried for 429 and for 503 with a time to wait."""

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
        """The result of reading a body, off the event loop if it is large. Raises VendorFault if it cannot be read or
        has too many values."""
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
    """The vendor's own cloud; None if a person gives the address."""
    is_url_whole: ClassVar[bool] = False
    """True if the address is asked as it is; False if paths are added to it."""
    fields: ClassVar[Sequence[CredentialField]]
    receives: ClassVar[bool] = False
    """True if it understands requests to `POST /telematics/{connector}`."""
    counts_pages: ClassVar[bool] = False
    """True if a cursor is the number of a page of the newest positions. After two faults in a row the page behind it is
    next, and after a further one the first, so that one that always fails keeps no other away."""
    least_wait_seconds: ClassVar[float] = 5.0
    """Least wait between two polls, unless a page `has_more`."""

    @abstractmethod
    async def poll(self, cursor: str | None, access: Access, http: VendorHttp) -> VendorPage:
        """The next page after `cursor`; for None the newest positions. Raises VendorFault if the vendor does not answer
        well; the connector shows the fault."""

    async def test(self, access: Access, http: VendorHttp) -> str:
        """Asks the vendor once, stores nothing, and returns a sentence about the success. Raises VendorFault, with a
        sentence for the person, if the vendor does not answer well."""
        page = await self.poll(None, access, http)
        return f"{self.title} answered with {len(page.vehicles)} vehicles and {len(page.fixes)} positions"

    def faults_of(self, credentials: Mapping[FieldName, str]) -> str | None:
        """The fault of a person's credentials, apart from missing fields; None if there is none."""
        if credentials.get(POSITIONS_FIELD.name) not in (None, _NO):
            return f"{POSITIONS_FIELD.title} is left empty, or `{_NO}`"
        return None

    def asks(self, credentials: Mapping[FieldName, str]) -> bool:
        """True if these credentials serve to poll. A vendor that only sends is never polled."""
        return credentials.get(POSITIONS_FIELD.name) != _NO

    def source_of(self, credentials: Mapping[FieldName, str]) -> str:
        """The part of the credentials to which a cursor belongs, such as a database; empty if they do not tell."""
        return ""

    def verify(self, request: InboundRequest, access: Access, *, now: datetime) -> None:
        """Checks in constant time that the vendor made the request. Raises ForgedRequest if it did not; the answer is
        then 401."""
        raise ForgedRequest

    def read_inbound(self, request: InboundRequest, access: Access) -> VendorPage:
        """The positions of a verified request. Raises UnreadableAnswer if it breaks the vendor's format."""
        raise UnreadableAnswer(self.title)


# --- Faults ----------------------------------------------------------------------------------------------------


class VendorFault(FuelrouteError):
    """The vendor did not answer well. The text is the sentence for people."""

    what_to_do = "nothing: Fuelroute tries again by itself"
    status: int | None = None

    def __init__(self, sentence: str, *, what_to_do: str | None = None, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        if what_to_do is not None:
            self.what_to_do = what_to_do


class VendorRefusal(VendorFault):
    """The vendor refuses the credentials."""

    what_to_do = "make a new token at the vendor, with the right to read vehicles and their positions, and set it here"


class VendorHurried(VendorFault):
    """The vendor wants to be asked less often, or later."""

    def __init__(self, sentence: str, retry_after_seconds: float | None, *, status: int = 429) -> None:
        super().__init__(sentence, status=status)
        self.retry_after_seconds = retry_after_seconds


class UnreadableAnswer(VendorFault):
    """The body of an answer does not match the vendor's documentation."""

    what_to_do = "check the address; if it is right, the vendor is disturbed or has changed its answers"

    def __init__(self, title: str) -> None:
        super().__init__(f"{title} gave an answer that cannot be read")


class ForgottenCursor(VendorFault):
    """The vendor no longer knows the cursor. The next poll begins with the newest positions."""


class ForgedRequest(Exception):
    """A request lacks the vendor's signature or token."""


# --- Helpers of vendors ------------------------------------------------------------------------------------------


def is_same_secret(given: str | None, expected: str | None) -> bool:
    """True if both texts are the same secret, and not empty. The comparison takes constant time."""
    return bool(expected) and hmac.compare_digest((given or "").encode(), (expected or "").encode())
