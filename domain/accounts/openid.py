"""Proof of who somebody is by their account at the operator's OpenID Connect provider: authorization code with PKCE.

This module speaks with the provider and judges its answers. It knows no users; `openid_users` does. The operator chose
the provider, so its addresses are trusted, but not its answers: each is bounded in time and bytes. An ID token counts
only when it is signed by a key of the provider, for us, for this attempt, and has not expired. The keys are read at
each sign-in, so a key that the provider has replaced ends at once.
"""

import asyncio
import hashlib
import hmac
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from domain.accounts.openid_errors import ProofRefused, ProviderAway
from domain.addresses import is_host, is_local
from domain.settings import Settings

PROVIDER_SECONDS = 10.0
"""Time for all requests of one step together."""
_DISCOVERED_SECONDS = 300.0
_LEEWAY_SECONDS = 60
"""The difference between two clocks that is tolerated."""
_LONGEST_SUBJECT = 255
_LONGEST_EMAIL = 200

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Accepted signatures, made with keys of the provider. An unsigned token does not count, nor one signed with our client
secret."""


class OpenIdAttempt(NamedTuple):
    """The secrets of one attempt to sign in. Only the browser that began it can finish it."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, token: str) -> "OpenIdAttempt":
        """The secrets that belong to the random token in a browser's cookie. The token cannot be made from them."""
        return cls(*(_derived(token, purpose) for purpose in cls._fields))


def _derived(token: str, purpose: str) -> str:
    return hmac.new(token.encode(errors="replace"), f"openid {purpose}".encode(), hashlib.sha256).hexdigest()


class ProvedIdentity(NamedTuple):
    """An account at the provider, whose owner is in front of the browser."""

    issuer: str
    subject: str
    email: str | None
    """The verified address; None if the provider has none."""


class OpenIdProvider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings) -> None:
        from joserfc import jwt  # these take long to load: only consoles with a provider need them

        from domain.accounts import openid_http

        self._jwt = jwt
        self._http = openid_http
        self.label = settings.openid_label
        self._issuer = settings.openid_issuer or ""
        self._client_id = settings.openid_client_id or ""
        secret = settings.openid_client_secret
        self._client_secret = secret.get_secret_value() if secret is not None else None
        self._scopes = settings.openid_scopes
        self._discovered: tuple[float, dict[str, Any]] | None = None

    @classmethod
    def of(cls, settings: Settings) -> "OpenIdProvider | None":
        """The provider of the settings; None where people sign in by passwords alone."""
        return cls(settings) if settings.openid_issuer is not None else None

    async def sign_in_url(self, attempt: OpenIdAttempt, *, redirect_uri: str) -> str:
        """The address of the provider to which the browser goes. Raises ProviderAway if the provider cannot be
        asked."""
        async with _limited(), self._session({}, redirect_uri) as session:
            endpoint = self._endpoint(await self._discover(session), "authorization_endpoint")
            url, _ = session.create_authorization_url(
                endpoint, state=attempt.state, nonce=attempt.nonce, code_verifier=attempt.verifier
            )
        return str(url)

    async def prove(
        self, attempt: OpenIdAttempt, code: str, *, issuer: str, redirect_uri: str, now: datetime
    ) -> ProvedIdentity:
        """The account behind the code. `issuer` is the one in the answer, empty if it names none. Raises ProviderAway
        if the provider cannot be asked, and ProofRefused if its answer proves nothing; the console then asks the person
        to try again."""
        async with _limited():
            async with self._session({}, redirect_uri) as session:
                metadata = await self._discover(session)
            needs_issuer = metadata.get("authorization_response_iss_parameter_supported") is True
            if issuer != self._issuer and (issuer or needs_issuer):
                raise ProofRefused("the answer names another issuer")
            async with self._session(metadata, redirect_uri) as session:
                endpoint = self._endpoint(metadata, "token_endpoint")
                tokens = await self._http.redeem(session, endpoint, code, attempt.verifier)
                keys = await self._http.get_json(session, self._endpoint(metadata, "jwks_uri"))
                claims = self._verified(tokens.get("id_token"), keys, attempt, now)
                if "email" not in claims and "userinfo_endpoint" in metadata:
                    claims = await self._with_user_info(session, metadata, tokens, claims)
        return ProvedIdentity(self._issuer, claims["sub"], _verified_email(claims))

    def _session(self, metadata: Mapping[str, Any], redirect_uri: str) -> Any:
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return self._http.AsyncOAuth2Client(
            client_id=self._client_id,
            client_secret=self._client_secret,
            token_endpoint_auth_method=method if self._client_secret else "none",
            scope=self._scopes,
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            headers={"Accept-Encoding": "identity"},
            transport=self._http.BoundedTransport(verify=self._tls),
            timeout=PROVIDER_SECONDS,
            follow_redirects=False,
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def _discover(self, session: Any) -> dict[str, Any]:
        """The addresses and abilities that the provider publishes, at most `_DISCOVERED_SECONDS` old."""
        if self._discovered is not None and time.monotonic() - self._discovered[0] < _DISCOVERED_SECONDS:
            return self._discovered[1]
        metadata = await self._http.get_json(session, f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata.get("issuer") != self._issuer:
            raise ProviderAway("the provider calls itself by another issuer than FUELROUTE_OPENID_ISSUER")
        self._discovered = (time.monotonic(), metadata)
        return metadata

    def _endpoint(self, metadata: Mapping[str, Any], name: str) -> str:
        """An address of the provider: https, unless the provider itself is on this machine without it."""
        url = metadata.get(name)
        scheme, host = _scheme_and_host(url if isinstance(url, str) else "")
        is_http = scheme == "http" and self._issuer.startswith("http://") and is_local(host)
        if not is_host(host) or not (scheme == "https" or is_http):
            raise ProviderAway(f"the provider names no {name} with https")
        return str(url)

    def _verified(self, token: object, keys: dict[str, Any], attempt: OpenIdAttempt, now: datetime) -> dict[str, Any]:
        """The claims of an ID token that the provider signed for us and for this attempt, and that has not expired.
        Raises ProofRefused for any other token."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        if not isinstance(token, str):
            raise ProofRefused("there is no ID token in the answer")
        registry = self._jwt.JWTClaimsRegistry(
            now=int(now.timestamp()),
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": attempt.nonce},
        )
        try:
            known = KeySet.import_key_set({"keys": [key for key in keys["keys"] if key.get("kty") != "oct"]})
            claims = self._jwt.decode(token, known, algorithms=_ALGORITHMS).claims
            registry.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProofRefused(f"the ID token does not hold: {type(error).__name__} {str(error)[:100]}") from None
        audience = claims["aud"]
        party = claims.get("azp", self._client_id if isinstance(audience, str) or len(audience) == 1 else None)
        if party != self._client_id:
            raise ProofRefused("the ID token was made for another client")
        if not 1 <= len(claims["sub"]) <= _LONGEST_SUBJECT or "\x00" in claims["sub"]:
            raise ProofRefused("the ID token names nobody")
        return claims

    async def _with_user_info(
        self, session: Any, metadata: Mapping[str, Any], tokens: Mapping[str, Any], claims: dict[str, Any]
    ) -> dict[str, Any]:
        """The claims, with the e-mail address that some providers give only on request."""
        headers = {"Authorization": f"Bearer {tokens.get('access_token')}"}
        told = await self._http.get_json(session, self._endpoint(metadata, "userinfo_endpoint"), headers=headers)
        if told.get("sub") != claims["sub"]:
            raise ProofRefused("the provider told of another person")
        return {**claims, "email": told.get("email"), "email_verified": told.get("email_verified")}


def _scheme_and_host(url: str) -> tuple[str, str]:
    """Scheme and host of an address; both empty if it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "", ""
    return parts.scheme, parts.hostname or ""


def _verified_email(claims: Mapping[str, Any]) -> str | None:
    email = claims.get("email")
    is_verified = claims.get("email_verified") in (True, "true")  # some providers write it as a text
    return email if is_verified and isinstance(email, str) and 0 < len(email) <= _LONGEST_EMAIL else None


@asynccontextmanager
async def _limited() -> AsyncIterator[None]:
    """Limits the time of one step. Raises ProviderAway when it is over."""
    try:
        async with asyncio.timeout(PROVIDER_SECONDS):
            yield
    except TimeoutError:
        raise ProviderAway(f"no answer within {PROVIDER_SECONDS:g} s") from None
