"""A document of facts, tables and notes as a signed PDF.

The same document gives the same pages: nothing in them depends on when or where they are made. The signature is PAdES
with the installation's key, so each later change of the file shows."""

import unicodedata
from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from domain.signing.signing_keys import SigningKey, fingerprint
from domain.text import one_line

if TYPE_CHECKING:  # libraries that only a signed file needs
    from fpdf import FPDF

_CHECK = (
    "This file is signed. A reader of PDF files shows whether it was changed since. The signature's certificate has the"
    " SHA-256 fingerprint {fingerprint}. Compare it with the fingerprint that the carrier gives you by another way."
)
_LINE = 6.0
_LABEL_WIDTH, _LABEL_GAP = 62.0, 4.0

_LIBRARIES = (
    *("fpdf", "domain.signing.pdf_signer"),
    *("pyhanko.pdf_utils.incremental_writer", "pyhanko.pdf_utils.metadata.xmp_xml"),
)

Facts = Sequence[tuple[str, str]]
"""Labels and values."""


class PdfTable(NamedTuple):
    """A table below a heading; the heading may be empty. `widths` are relative; columns are equally wide without."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    widths: Sequence[int] | None = None


class PdfDocument(NamedTuple):
    title: str
    dated: datetime
    """The creation date in the file."""
    facts: Facts
    tables: Sequence[PdfTable]
    notes: Sequence[str]


def load_pdf_libraries() -> None:
    """Load what a signed file needs, before a transaction that makes one begins: it takes seconds of a busy machine."""
    for name in _LIBRARIES:
        import_module(name)


def signed_pdf(document: PdfDocument, key: SigningKey) -> bytes:
    """The signed file. Its last note says how to check the signature."""
    return _signed(_pages(document, fingerprint(key.certificate)), document.title, key)


def _pages(document: PdfDocument, mark: str) -> bytes:
    from fpdf import FPDF

    pdf = FPDF(format="letter")
    pdf.set_creation_date(document.dated)
    pdf.set_title(document.title)
    pdf.set_producer("Fuelroute")
    pdf.set_auto_page_break(auto=True, margin=18)
    pdf.add_page()
    _heading(pdf, document.title, 16)
    _facts(pdf, document.facts)
    for table in document.tables:
        _table(pdf, table)
    pdf.ln(3)
    pdf.set_font("Helvetica", size=9)
    for text in (*document.notes, _CHECK.format(fingerprint=mark)):
        pdf.multi_cell(0, 4.5, _latin(text), align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(1.5)
    return bytes(pdf.output())


def _heading(pdf: "FPDF", text: str, size: int) -> None:
    pdf.set_font("Helvetica", style="B", size=size)
    pdf.cell(0, 10, _latin(text), new_x="LMARGIN", new_y="NEXT")


def _facts(pdf: "FPDF", facts: Facts) -> None:
    pdf.set_font("Helvetica", style="B", size=10)
    width = max(_LABEL_WIDTH, *(pdf.get_string_width(label) + _LABEL_GAP for label, _ in facts))
    for label, value in facts:
        pdf.set_font("Helvetica", style="B", size=10)
        pdf.cell(width, _LINE, label)
        pdf.set_font("Helvetica", size=10)
        pdf.multi_cell(0, _LINE, _latin(value), align="L", new_x="LMARGIN", new_y="NEXT")


def _table(pdf: "FPDF", table: PdfTable) -> None:
    if not table.rows:
        return
    pdf.ln(3)
    if table.heading:
        _heading(pdf, table.heading, 12)
    pdf.set_font("Helvetica", size=9)
    with pdf.table(text_align="LEFT", line_height=5, col_widths=table.widths) as shown:
        shown.row(table.columns)
        for row in table.rows:
            shown.row([_latin(cell) for cell in row])


_PLAIN = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **{"\u2022": "\xb7", "\u20ac": "EUR", "\u0131": "i", "\u0152": "OE", "\u0153": "oe", "\u1e9e": "SS"},
        **{"\u0110": "D", "\u0111": "d", "\u0126": "H", "\u0127": "h", "\u0141": "L", "\u0142": "l"},
    }
)
"""Signs and letters that Unicode does not take apart: quotes, dashes, the Polish l, and others."""


def _latin(text: str) -> str:
    """The text in the letters of the fonts that every reader of PDF files has. Others lose their accents, typographic
    signs become plain ones, and what is left becomes question marks."""
    return "".join(map(_latin_letter, unicodedata.normalize("NFC", one_line(text)).translate(_PLAIN)))


def _latin_letter(letter: str) -> str:
    if letter <= "\xff":
        return letter
    parts = unicodedata.normalize("NFKD", letter)
    kept = "".join(part for part in parts if unicodedata.category(part) not in ("Mn", "Cf"))
    return kept.translate(_PLAIN).encode("latin-1", "replace").decode("latin-1")


def _signed(pages: bytes, title: str, key: SigningKey) -> bytes:
    from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
    from pyhanko.sign import PdfSignatureMetadata, sign_pdf
    from pyhanko.sign.fields import SigSeedSubFilter

    from domain.signing.pdf_signer import PdfSigner

    how = PdfSignatureMetadata(field_name="Carrier", subfilter=SigSeedSubFilter.PADES, reason=title)
    signed = sign_pdf(IncrementalPdfFileWriter(BytesIO(pages)), how, signer=PdfSigner(key))
    return bytes(signed.getvalue())
