"""A real OpenID Connect provider on this machine: it has keys, signs people in, and lies as the test tells it."""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT_ID, CLIENT_SECRET = "fuelroute-console", "a secret of the client"


@dataclass
class Account:
    """Somebody who is signed in at the provider."""

    email: str
    subject: str = field(default_factory=lambda: secrets.token_hex(8))
    is_verified: bool = True


@dataclass
class Provider:
    """The provider's state, and the ways in which its next answers differ from honest ones."""

    issuer: str = ""
    account: Account | None = None
    """The person in front of the browser. None: the provider shows a form that asks for one."""
    key: RSAKey = field(default_factory=lambda: _new_key())
    published: list[RSAKey] | None = None
    """Keys that it publishes; None: the one that it signs with."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims that its ID tokens have instead; None leaves one out."""
    algorithm: str = "RS256"
    answer: dict[str, str] = field(default_factory=dict)
    """Parameters that it sends back to the console instead."""
    tells_email_on_request: bool = False
    """The ID token has no e-mail address; the address of userinfo tells it."""
    info_subject: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    flood: bool = False
    """Its keys never end."""
    breaks: bool = False
    """Its keys are no JSON."""
    hangs: threading.Event = field(default_factory=threading.Event)
    """Set, it takes requests and answers none."""
    closing: threading.Event = field(default_factory=threading.Event)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """The paths that were asked for."""

    def rotate(self) -> None:
        self.key = _new_key()


def _text_of(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def _new_key() -> RSAKey:
    key = RSAKey.generate_key(2048, private=True)
    key.ensure_kid()
    return key


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()

    class Handler(_Handler):
        state = provider

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    state: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing on the screen."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self._serve(url.path, {name: values[-1] for name, values in parse_qs(url.query).items()})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._serve(urlsplit(self.path).path, {name: values[-1] for name, values in parse_qs(body).items()})

    def _serve(self, path: str, given: dict[str, str]) -> None:
        state = self.state
        state.asked.append(path)
        while state.hangs.is_set() and not state.closing.wait(0.05):
            pass
        with suppress(BrokenPipeError, ConnectionResetError):
            match path:
                case "/.well-known/openid-configuration":
                    self._json(self._metadata())
                case "/authorize":
                    self._authorize(given)
                case "/token":
                    self._token(given)
                case "/keys":
                    self._keys()
                case "/userinfo":
                    self._user_info()
                case _:
                    self._json({"error": "not_found"}, 404)

    def _metadata(self) -> dict[str, Any]:
        issuer = self.state.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "userinfo_endpoint": f"{issuer}/userinfo",
            "authorization_response_iss_parameter_supported": True,
            **self.state.metadata,
        }

    def _authorize(self, given: dict[str, str]) -> None:
        """Send the browser back with a code, or show the form of somebody who is not signed in here."""
        honest = given["client_id"] == CLIENT_ID and given["code_challenge_method"] == "S256"
        account = self.state.account
        if account is None and given.get("email"):
            account = Account(given["email"], subject=given["email"])
        if not honest or account is None:
            fields = "".join(f'<input type="hidden" name="{name}" value="{escape(v)}">' for name, v in given.items())
            form = (
                f'<form action="/authorize">{fields}<label>E-mail <input name="email"></label><button>Continue</button>'
            )
            self._answer(f"<!doctype html><title>Provider</title>{form}</form>".encode(), "text/html")
            return
        code = secrets.token_urlsafe(16)
        self.state.codes[code] = {**given, "email": account.email, "sub": account.subject}
        self.state.codes[code]["verified"] = "yes" if account.is_verified else ""
        back = {"code": code, "state": given["state"], "iss": self.state.issuer, **self.state.answer}
        self.send_response(302)
        self.send_header("Location", f"{given['redirect_uri']}?{urlencode(back)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _token(self, given: dict[str, str]) -> None:
        """The tokens for a code: once, for the client with its secret, and for the browser that began."""
        known = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        begun = self.state.codes.pop(given.get("code", ""), None)
        challenge = _text_of(hashlib.sha256(given.get("code_verifier", "").encode()).digest())
        if self.headers.get("Authorization") != f"Basic {known}":
            self._json({"error": "invalid_client"}, 401)
        elif begun is None or begun["code_challenge"] != challenge:
            self._json({"error": "invalid_grant"}, 400)
        else:
            token = self._id_token(begun)
            access = f"{begun['sub']} {begun['email']}"
            self._json({"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": token})

    def _id_token(self, begun: dict[str, str]) -> str:
        state, now = self.state, int(time.time())
        email = {} if state.tells_email_on_request else {"email": begun["email"]}
        claims = {
            "iss": state.issuer,
            "aud": CLIENT_ID,
            "sub": begun["sub"],
            "nonce": begun["nonce"],
            "iat": now,
            "exp": now + 60,
            **email,
            "email_verified": bool(begun["verified"]),
            **state.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": state.algorithm, "kid": state.key.kid}
        if state.algorithm in ("none", "HS256"):  # no library signs like this: the public key is known to everybody
            signed = ".".join(_text_of(json.dumps(one).encode()) for one in (header, claims))
            secret = state.key.as_pem(private=False)
            mac = hmac.digest(secret, signed.encode(), "sha256") if state.algorithm == "HS256" else b""
            return f"{signed}.{_text_of(mac)}"
        return jwt.encode(header, claims, state.key)

    def _keys(self) -> None:
        if self.state.flood:
            self.send_response(200)
            self.end_headers()
            while not self.state.closing.is_set():
                self.wfile.write(b"[" * 65_536)
            return
        if self.state.breaks:
            self._answer(b"<h1>Bad gateway</h1>", "text/html")
            return
        keys = self.state.published if self.state.published is not None else [self.state.key]
        self._json(dict(KeySet(list(keys)).as_dict(private=False)))

    def _user_info(self) -> None:
        subject, _, email = self.headers["Authorization"].removeprefix("Bearer ").partition(" ")
        self._json({"sub": self.state.info_subject or subject, "email": email, "email_verified": True})

    def _json(self, document: dict[str, Any], status: int = 200) -> None:
        self._answer(json.dumps(document).encode(), "application/json", status)

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
