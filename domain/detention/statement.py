"""The statement of a truck's time at a stop, as a signed PDF for a claim.

The same facts give the same pages: nothing in them depends on when or where they are made. The signature is PAdES with
the installation's key, so each later change of the file shows."""

from collections.abc import Callable, Iterator
from datetime import datetime
from io import BytesIO
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from domain.detention.dwells import Dwell, End
from domain.detention.signing_keys import SigningKey, fingerprint
from domain.ids import shown_id
from domain.messages.message_text import one_line

if TYPE_CHECKING:  # libraries that only a statement needs
    from fpdf import FPDF

_When = Callable[[datetime], str]
_TITLE = "Statement of time at a stop"
_RULE = (
    "Free time counts from the later of the arrival and the beginning of the appointment. A truck that comes early"
    " waits until its appointment begins; that time is not counted. Time beyond the free time ends with the departure,"
    " or with the last position at the stop."
)
_CHECK = (
    "This file is signed. A reader of PDF files shows whether it was changed since. The signature's certificate has the"
    " SHA-256 fingerprint {fingerprint}. Compare it with the fingerprint that the carrier gives you by another way."
)
_LINE = 6.0
_LABEL_WIDTH = 62.0


def pdf_statement(dwell: Dwell, key: SigningKey) -> bytes:
    """The signed file."""
    return _signed(_pages(dwell, fingerprint(key.certificate)), key)


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
    elif dwell.left_by is not None:
        yield "Departed", f"by {when(dwell.left_by)} at the latest: no position shows when"
    elif dwell.stay.last_at is not None:
        yield "Last seen at the stop", when(dwell.stay.last_at)
    else:
        yield "Departed", "not known"


def _shown_by(end: End) -> str:
    if end.by:
        return f"a dispatcher entered it. {end.by}"
    return end.rule or "the positions are no longer stored"


def _watched(dwell: Dwell) -> str:
    stay = dwell.stay
    if not stay.fixes:
        return "none are stored any more"
    return (
        f"{stay.fixes:,}, at most {stay.furthest_meters} m from the place, the longest gap"
        f" {stay.longest_gap_minutes:,} minutes"
    )


def _pages(dwell: Dwell, mark: str) -> bytes:
    from fpdf import FPDF

    pdf = FPDF(format="letter")
    pdf.set_creation_date(dwell.until or dwell.arrival.at)
    pdf.set_title(_TITLE)
    pdf.set_producer("Fuelroute")
    pdf.set_auto_page_break(auto=True, margin=18)
    pdf.add_page()
    pdf.set_font("Helvetica", style="B", size=16)
    pdf.cell(0, 10, _TITLE, new_x="LMARGIN", new_y="NEXT")
    for label, value in facts(dwell):
        _fact(pdf, label, value)
    _positions(pdf, dwell)
    pdf.ln(3)
    pdf.set_font("Helvetica", size=9)
    for text in (_RULE, _CHECK.format(fingerprint=mark)):
        pdf.multi_cell(0, 4.5, text, align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(1.5)
    return bytes(pdf.output())


def _fact(pdf: "FPDF", label: str, value: str) -> None:
    pdf.set_font("Helvetica", style="B", size=10)
    pdf.cell(_LABEL_WIDTH, _LINE, label)
    pdf.set_font("Helvetica", size=10)
    pdf.multi_cell(0, _LINE, _latin(value), align="L", new_x="LMARGIN", new_y="NEXT")


def _positions(pdf: "FPDF", dwell: Dwell) -> None:
    """The fixes that satisfied the rules of arrival and departure."""
    shown = [("arrival", fix) for fix in dwell.arrival.fixes]
    shown += [("departure", fix) for fix in dwell.departure.fixes] if dwell.departure is not None else []
    if not shown:
        return
    pdf.ln(3)
    pdf.set_font("Helvetica", size=9)
    with pdf.table(text_align="LEFT", line_height=5) as table:
        table.row(("For the", "Recorded (UTC)", "Latitude", "Longitude", "Speed, mph", "Accuracy, m"))
        for end, fix in shown:
            at = datetime.fromisoformat(fix["recordedAt"]).astimezone(ZoneInfo("UTC"))
            numbers = ("latitude", "longitude", "speedMph", "accuracyMeters")
            cells = ["" if fix[name] is None else f"{fix[name]:g}" for name in numbers[2:]]
            table.row((end, f"{at:%Y-%m-%d %H:%M:%S}", f"{fix['latitude']:.5f}", f"{fix['longitude']:.5f}", *cells))


def _latin(text: str) -> str:
    """The text in the letters of the fonts that every reader of PDF files has; others become question marks."""
    return one_line(text).encode("latin-1", "replace").decode("latin-1")


def _signed(pages: bytes, key: SigningKey) -> bytes:
    from pyhanko.keys import load_certs_from_pemder_data, load_private_key_from_pemder_data
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign import PdfSignatureMetadata, SimpleSigner, sign_pdf
    from pyhanko.sign.fields import SigSeedSubFilter
    from pyhanko_certvalidator.registry import SimpleCertificateStore

    signer = SimpleSigner(
        signing_cert=next(iter(load_certs_from_pemder_data(key.certificate.encode()))),
        signing_key=load_private_key_from_pemder_data(key.private_key.encode(), None),
        cert_registry=SimpleCertificateStore(),
    )
    how = PdfSignatureMetadata(field_name="Carrier", subfilter=SigSeedSubFilter.PADES, reason=_TITLE)
    signed = sign_pdf(IncrementalPdfFileWriter(BytesIO(pages)), how, signer=signer)
    return bytes(signed.getvalue())
