"""The statement of a truck's time at a stop, as a signed PDF for a claim."""

from collections.abc import Callable, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from domain.detention.dwells import Dwell, End
from domain.ids import shown_id
from domain.signing.signed_pdf import PdfDocument, PdfTable, signed_pdf
from domain.signing.signing_keys import SigningKey

_When = Callable[[datetime], str]
_TITLE = "Statement of time at a stop"
_RULE = (
    "Free time counts from the later of the arrival and the beginning of the appointment. A truck that comes early"
    " waits until its appointment begins; that time is not counted. At the first place of a route, free time without an"
    " appointment ends no earlier than the scheduled start. Time beyond the free time ends with the departure,"
    " or with the last position at the stop."
)


def pdf_statement(dwell: Dwell, key: SigningKey) -> bytes:
    """The signed file."""
    dated = dwell.until or dwell.arrival.at
    return signed_pdf(PdfDocument(_TITLE, dated, list(facts(dwell)), [_positions(dwell)], [_RULE]), key)


def facts(dwell: Dwell) -> Iterator[tuple[str, str]]:
    """The labels and values of the statement, in its order."""
    zone = ZoneInfo(dwell.time_zone)

    def when(at: datetime) -> str:
        return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z} ({at:%Y-%m-%dT%H:%M:%SZ})"

    yield "Carrier", dwell.company
    yield "Load", f"{dwell.reference} ({dwell.load})" if dwell.reference else dwell.load
    yield "Route", shown_id("rte", dwell.route_id)
    if dwell.environment != "live":
        yield "Environment", "sandbox: a rehearsal, no truck was there"
    yield "Truck", ", ".join(filter(None, (dwell.unit_number, f"VIN {dwell.vin}" if dwell.vin else ""))) or "not known"
    yield "Stop", f"{dwell.stop + 1} of {dwell.stops}: {dwell.place['name']}"
    if dwell.place.get("address"):
        yield "Address", dwell.place["address"]
    yield "Place", f"{dwell.place['latitude']:.5f}, {dwell.place['longitude']:.5f}"
    if dwell.reached_together:
        others = ", ".join(f"{stop + 1}" for stop in dwell.reached_together)
        yield "One stay with", f"stop {others}, at the same place: this time is claimed once for all of them"
    yield "Appointment", _window(dwell, when)
    yield "Arrived", when(dwell.arrival.at)
    yield "Shown by", _shown_by(dwell.arrival)
    if dwell.free.early_minutes:
        yield "Early by", f"{dwell.free.early_minutes:,} minutes; not counted"
    if dwell.free.late_minutes:
        yield "Late by", f"{dwell.free.late_minutes:,} minutes after the appointment had ended"
    yield "Free time", f"{dwell.free_minutes:g} minutes, by the carrier's policy"
    yield "Counts from", when(dwell.free.counts_from)
    yield "Free time ended", when(dwell.free.ends_at)
    yield from _end(dwell, when)
    yield "Positions at the stop", _watched(dwell)
    beyond = dwell.minutes_beyond
    yield "Beyond the free time", "not proven" if beyond is None else f"{beyond:,} minutes"


def _window(dwell: Dwell, when: _When) -> str:
    if dwell.opens_at is None and dwell.closes_at is None:
        return "none was pushed"
    parts = [f"from {when(dwell.opens_at)}"] if dwell.opens_at is not None else []
    parts += [f"to {when(dwell.closes_at)}"] if dwell.closes_at is not None else []
    return " ".join(parts)


def _end(dwell: Dwell, when: _When) -> Iterator[tuple[str, str]]:
    if dwell.departure is not None:
        yield "Departed", when(dwell.departure.at)
        yield "Shown by", _shown_by(dwell.departure)
        return
    if dwell.left_by is not None:
        yield "Departed", f"by {when(dwell.left_by)} at the latest: no position shows when"
    elif dwell.stay.last_at is None:
        yield "Departed", "not known"
    if dwell.stay.last_at is not None:
        yield "Last seen at the stop", when(dwell.stay.last_at)


def _shown_by(end: End) -> str:
    if end.by:
        return f"a dispatcher entered it. {end.by}"
    return end.rule or "what showed it is no longer stored"


def _watched(dwell: Dwell) -> str:
    stay = dwell.stay
    if not stay.fixes:
        return "none are stored any more"
    return (
        f"{stay.fixes:,}, at most {stay.furthest_meters} m from the place, the longest gap"
        f" {stay.longest_gap_minutes:,} minutes"
    )


def _positions(dwell: Dwell) -> PdfTable:
    """The fixes that satisfied the rules of arrival and departure."""
    shown = [("arrival", fix) for fix in dwell.arrival.fixes]
    shown += [("departure", fix) for fix in dwell.departure.fixes] if dwell.departure is not None else []
    rows = []
    for end, fix in shown:
        at = datetime.fromisoformat(fix["recordedAt"]).astimezone(ZoneInfo("UTC"))
        numbers = ["" if fix[name] is None else f"{fix[name]:g}" for name in ("speedMph", "accuracyMeters")]
        place = [f"{fix['latitude']:.5f}", f"{fix['longitude']:.5f}"]
        rows.append([end, f"{at:%Y-%m-%d %H:%M:%S}", *place, *numbers])
    columns = ("For the", "Recorded (UTC)", "Latitude", "Longitude", "Speed, mph", "Accuracy, m")
    return PdfTable("", columns, rows)
