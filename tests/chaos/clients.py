"""The callers of the service under chaos: each company's TMS and trucks, and its people at the console.

Every answer is noted. A caller whose ingress refuses the connection goes to the other one, as behind a load balancer.
"""

import itertools
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx

from tests.chaos.model import Account, Answer, Model
from tests.chaos.stack import INGRESSES
from tests.ingress.console.conftest import Browser

PATIENCE_SECONDS = 25.0
"""A patient caller repeats a request that had no answer, or 500, for so long."""
_CLIENT_SECONDS = 30.0
_KEEPS_ALL = httpx.Limits(max_connections=None, max_keepalive_connections=None)
"""httpx closes a connection that is one too many, although another thread was given it and is about to send."""

NO_ANSWER = 0


class Clients:
    """Connections to both ingresses and the console, shared by the threads of the traffic."""

    def __init__(self, urls: Mapping[str, str], model: Model, tokens: Mapping[UUID | None, str]) -> None:
        """`tokens` are cookies of signed-in users, by company; None is an operator."""
        self._model = model
        self._apis = [
            httpx.Client(base_url=urls[name], timeout=_CLIENT_SECONDS, limits=_KEEPS_ALL) for name in INGRESSES
        ]
        self._numbers = itertools.count()
        self._browsers = {
            company_id: Browser(urls["console"], cookies={"fuelroute": token}) for company_id, token in tokens.items()
        }

    def sign_in(self) -> None:
        """Each browser reads the token of its forms."""
        for browser in self._browsers.values():
            browser.look("/account")

    def close(self) -> None:
        for one in (*self._apis, *self._browsers.values()):
            one.close()

    def ask(self, account: Account, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status of the answer and its document. Status 0: no answer came."""
        number = next(self._numbers)
        headers = {"Authorization": f"Bearer {account.keys[number % len(account.keys)]}"}
        begun_at = time.monotonic()
        status, document, fault = NO_ANSWER, None, ""
        for api in (self._apis[number % 2], self._apis[(number + 1) % 2]):
            try:
                answer = api.request(method, path, json=body, headers=headers)
            except httpx.ConnectError:  # nothing was sent
                continue
            except httpx.TransportError as error:
                fault = repr(error)
                break
            status = answer.status_code
            document = answer.json() if answer.content and status != 500 else None
            break
        request = f"{method} {path.partition('?')[0][:24]}"
        self._model.note(Answer(begun_at, time.monotonic(), status, request, fault))
        return status, document

    def ask_patiently(self, account: Account, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Repeats the request until it has an answer that is neither 429 nor 500."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            status, document = self.ask(account, method, path, body)
            if not is_to_repeat(status) or time.monotonic() > deadline:
                return status, document
            time.sleep(1 if status == 429 else 0.2)

    def submit(self, company_id: UUID, path: str, **fields: Any) -> int:
        """The status of the console's answer to a form."""
        return self._console("POST", path, lambda: self._browsers[company_id].submit(path, **fields))[0]

    def look(self, company_id: UUID, path: str) -> str:
        """A page of the console; empty when there was no page."""
        status, text = self._console("GET", path, lambda: self._browsers[company_id].get(path, follow_redirects=True))
        return text if status == 200 else ""

    def upload(self, kind: str, text: str) -> int:
        """The status of the console's answer to an operator's CSV file."""
        browser = self._browsers[None]
        headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
        path = f"/{kind}/import"
        return self._console("POST", path, lambda: browser.post(path, content=text.encode(), headers=headers))[0]

    def _console(self, method: str, path: str, send: Any) -> tuple[int, str]:
        begun_at, fault = time.monotonic(), ""
        try:
            answer = send()
            status, text = answer.status_code, answer.text
        except httpx.TransportError as error:
            status, text, fault = NO_ANSWER, "", repr(error)
        self._model.note(Answer(begun_at, time.monotonic(), status, f"console {method} {path[:24]}", fault))
        return status, text


def is_to_repeat(status: int) -> bool:
    return status in (NO_ANSWER, 429) or status >= 500
