"""Signed PDF files. `detention/test_detained.py` checks their signatures."""

import sys
from datetime import datetime
from io import BytesIO

import pytest
from pyhanko.pdf_utils.reader import PdfFileReader

from domain.ids import new_id
from domain.signing.signed_pdf import PdfDocument, PdfTable, load_pdf_libraries, signed_pdf
from domain.signing.signing_keys import new_signing_key


def test_a_signed_file_needs_no_library_that_was_not_loaded_before(now: datetime) -> None:
    key = new_signing_key(new_id(), now)
    document = PdfDocument("Title", now, [("Truck", "101")], [PdfTable("Stops", ("Stop",), [["Joliet"]])], ["A note."])
    load_pdf_libraries()
    before = set(sys.modules)

    assert signed_pdf(document, key).startswith(b"%PDF-")

    assert {name for name in set(sys.modules) - before if not name.startswith(("encodings.", "tzdata"))} == set()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("M\u00fcller & S\u00f6hne", "M\u00fcller & S\u00f6hne"),
        ("\u0141\u00f3d\u017a Trucking", "L\u00f3dz Trucking"),
        ("Ren\u0065\u0301", "Ren\u00e9"),
        ("Love\u2019s \u2013 Exit 92\u2026", "Love's - Exit 92..."),
        ("\u0130stanbul \u0131\u011f", "Istanbul ig"),
        ("\u26fd\ufe0f Stop", "? Stop"),
        ("\u6771\u4eac", "??"),
        ("evil\u202etxt", "evil txt"),
    ],
)
def test_letters_that_the_font_lacks_are_written_in_plain_ones(now: datetime, name: str, shown: str) -> None:
    document = PdfDocument("Title", now, [("Carrier", name)], [PdfTable("Stops", ("Stop",), [[name]])], [])
    pages = PdfFileReader(BytesIO(signed_pdf(document, new_signing_key(new_id(), now)))).root["/Pages"]["/Kids"]
    content = pages[0]["/Contents"].data.decode("latin-1")
    assert content.count(f"({shown})") == 2
