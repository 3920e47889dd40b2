"""Verifies webhooks by the rules of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body."""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from .errors import InvalidWebhook, Misconfigured
from .models import Route

TOLERANCE_SECONDS = 300
"""Furthest distance of a webhook's time from now. An old request that somebody recorded is refused."""


class WebhookEvent(msgspec.Struct, kw_only=True):
    """An event. It may come more than once with its `id`, so remember the ids that you have handled."""

    id: str = ""
    type: str
    """A type such as `route.planned`. A newer service may send types that you do not know: ignore them."""
    timestamp: datetime
    data: dict[str, Any]
    """The route; empty in `webhook.test`."""
    answer: dict[str, Any] | None = None
    """The driver's answer to a fuel stop, in `stop.going`, `stop.fueled` and `stop.refused`."""
    detention: dict[str, Any] | None = None
    """The stop whose free time has ended, in `stop.detained`."""

    @property
    def route(self) -> Route:
        """The route in `data`, as `GET /v1/routes/{id}` shows it. Raises InvalidWebhook when the event has none."""
        try:
            return msgspec.convert(self.data, Route)
        except msgspec.ValidationError as error:
            raise InvalidWebhook(f"the event {self.type} carries no route: {error}") from None


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> WebhookEvent:
    """The event, if the request was signed with the secret, or with one of several while they are rotated. `body` must
    be the request's body as it came: parsed and written again it has another signature. Raises InvalidWebhook if it was
    not, and Misconfigured for an impossible secret."""
    content = body.encode(errors="surrogatepass") if isinstance(body, str) else body
    names = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at, signatures = (names.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and sent_at and signatures):
        raise InvalidWebhook("the headers webhook-id, webhook-timestamp and webhook-signature are needed")
    _check_time(sent_at, tolerance_seconds)
    signed = f"{message_id}.{sent_at}.".encode(errors="surrogatepass") + content
    secrets = [secret] if isinstance(secret, str) else secret
    expected = [hmac.digest(_key(one), signed, hashlib.sha256) for one in secrets]
    if not any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in _given(signatures)):
        raise InvalidWebhook("no signature fits: it is another endpoint's secret, or the body is not as it was sent")
    return _event(content, message_id)


def _check_time(sent_at: str, tolerance_seconds: float) -> None:
    if not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 15):
        raise InvalidWebhook("webhook-timestamp is not a number of seconds")
    if abs(time.time() - int(sent_at)) > tolerance_seconds:
        raise InvalidWebhook("the webhook is too old or from the future: is this machine's clock right?")


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:  # an empty key would accept whatever anybody signs with it
        raise Misconfigured("the secret of the webhooks is missing, or is not whsec_ and base64")
    return key


def _given(signatures: str) -> list[bytes]:
    """The signatures of the kind that is known here, v1."""
    found = []
    for one in signatures.split():
        version, _, text = one.partition(",")
        if version == "v1":
            try:
                found.append(base64.b64decode(text, validate=True))
            except ValueError:
                continue
    return found


def _event(content: bytes, message_id: str) -> WebhookEvent:
    try:
        event = msgspec.json.decode(content, type=WebhookEvent)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidWebhook(f"the body is no event: {error}") from None
    event.id = message_id
    return event
