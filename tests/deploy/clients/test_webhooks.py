"""Webhooks that the Python client accepts, and those that it refuses."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.clients.python.fuelroute_client import InvalidWebhook, Misconfigured, verify_webhook
from tests.deploy.clients.test_flows import ROUTE

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()
OTHER = "whsec_" + base64.b64encode(b"another one").decode()
BODY = json.dumps({"type": "route.planned", "timestamp": "2026-12-01T08:00:00Z", "data": ROUTE, "new": 1}).encode()


def signed(body: bytes = BODY, *, secret: str = SECRET, sent_at: str = "", message_id: str = "msg_1") -> dict[str, str]:
    sent_at = sent_at or str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = hmac.digest(key, f"{message_id}.{sent_at}.".encode() + body, hashlib.sha256)
    return {
        "Webhook-Id": message_id,
        "Webhook-Timestamp": sent_at,
        "Webhook-Signature": f"v1a,abc v1,{base64.b64encode(signature).decode()}",
    }


def test_a_signed_event_is_read() -> None:
    event = verify_webhook(BODY, signed(), SECRET)

    assert (event.id, event.type, event.route.external_id) == ("msg_1", "route.planned", "LOAD-1")
    assert verify_webhook(BODY.decode(), signed(), [OTHER, SECRET]) == event
    assert verify_webhook(BODY, signed(), f" {SECRET}\n") == event, "as a file or a variable may hold it"


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of its specification's libraries."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }

    with pytest.raises(InvalidWebhook, match="is no event"):  # the signature fits
        verify_webhook('{"test": 2432232314}', headers, secret, tolerance_seconds=1e12)


@pytest.mark.parametrize("headers", [{}, {"webhook-id": "1"}, {"webhook-id": "1", "webhook-timestamp": "1"}])
def test_headers_are_needed(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidWebhook, match="are needed"):
        verify_webhook(BODY, headers, SECRET)


@pytest.mark.parametrize("change", ["body", "id", "secret", "time"])
def test_what_was_not_signed_so_is_refused(change: str) -> None:
    headers = signed(secret=OTHER if change == "secret" else SECRET)
    if change == "id":
        headers["Webhook-Id"] = "msg_2"
    if change == "time":
        headers["Webhook-Timestamp"] = str(int(time.time()) - 1)

    with pytest.raises(InvalidWebhook, match="no signature fits"):
        verify_webhook(BODY + (b" " if change == "body" else b""), headers, SECRET)


@pytest.mark.parametrize("seconds", [-400, 400])
def test_an_old_event_is_refused_even_when_it_is_signed(seconds: int) -> None:
    with pytest.raises(InvalidWebhook, match="too old or from the future"):
        verify_webhook(BODY, signed(sent_at=str(int(time.time()) + seconds)), SECRET)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64!", [""]])
def test_a_missing_secret_accepts_nothing(secret: Any) -> None:
    with pytest.raises(Misconfigured):
        verify_webhook(BODY, signed(secret="whsec_"), secret)


@pytest.mark.slow
@given(st.text(), st.text() | st.integers().map(str) | st.just("9" * 400), st.text(), st.binary())
def test_nothing_that_is_sent_makes_another_error(message_id: str, sent_at: str, signature: str, body: bytes) -> None:
    headers = {"webhook-id": message_id, "webhook-timestamp": sent_at, "webhook-signature": signature}

    with pytest.raises(InvalidWebhook):
        verify_webhook(body, headers, SECRET, tolerance_seconds=1e300)


def test_a_text_that_is_not_utf_8_is_no_event() -> None:
    body = b'{"type": "caf\xe9", "timestamp": "2026-12-01T08:00:00Z", "data": {}}'

    with pytest.raises(InvalidWebhook, match="is no event"):
        verify_webhook(body, signed(body), SECRET)


def test_an_event_without_a_route_is_told() -> None:
    body = json.dumps({"type": "other", "timestamp": "2026-12-01T08:00:00Z", "data": {}}).encode()

    event = verify_webhook(body, signed(body), SECRET)

    assert event.data == {}
    with pytest.raises(InvalidWebhook, match="carries no route"):
        _ = event.route
