"""Signed PDF files. `detention/test_detained.py` checks their signatures."""

import sys
from datetime import datetime

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
