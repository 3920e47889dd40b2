"""CSV files, sent to the console as its pages do, and read from its exports."""

import csv
import io

from tests.ingress.console.conftest import Browser, words
from tests.service import eventually


def send(browser: Browser, kind: str, text: str | bytes, *, status: int = 303) -> str:
    """Send a file. Returns the address of the page that follows its import, or the text of the refusal."""
    body = text if isinstance(text, bytes) else text.encode()
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    answer = browser.post(f"/{kind}/import", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.headers["location"] if status == 303 else words(answer.text)


def import_file(browser: Browser, kind: str, text: str | bytes) -> str:
    """Send a file and wait for the end of its import. Returns the text of its page."""
    address = send(browser, kind, text)
    return eventually(lambda: words(browser.look(address)), lambda said: "You may leave this page" not in said)


def exported(browser: Browser, kind: str) -> str:
    answer = browser.get(f"/{kind}.csv")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    return answer.content.decode("utf-8-sig")


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))
