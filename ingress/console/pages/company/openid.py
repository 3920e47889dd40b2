"""Signing in with an account of the OpenID Connect provider: the way there, and the way back.

Both addresses are links, not forms: browsers apply the policy of a page's forms to every address that a form is
redirected to, and nobody knows to which further hosts a provider leads. So neither changes who may sign in: an account
that is not bound yet leads to a page that names it and the user, and only the form on that page binds them."""

import hmac
from datetime import datetime
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response

from domain import clock
from domain.accounts import sessions
from domain.accounts.attempts import counters_of_openid, forgive, site_of, take_attempt
from domain.accounts.openid import OpenIdAttempt, OpenIdProvider, ProvedIdentity
from domain.accounts.openid_errors import ProofRefused, ProviderAway
from domain.accounts.openid_users import (
    Agreed,
    BoundUser,
    NoUser,
    bind_proved_account,
    remember_proof,
    user_of_identity,
)
from domain.accounts.tokens import new_token
from domain.accounts.users import LINK_HOURS
from domain.database.connections import Connection
from domain.database.visibility import EVERYTHING
from domain.telemetry.logs import get_logger
from domain.wording import counted
from ingress.console.addresses import awaited_page_at, open_page_at
from ingress.console.browser import (
    DEVICE,
    LONGEST_NEXT,
    OPENID,
    SESSION,
    Form,
    network_of_client,
    own_path,
    read_cookie,
    remove_cookie,
    set_cookie,
)
from ingress.console.console import Console
from ingress.console.fairness import PATIENCE_SECONDS
from ingress.console.pages.company.sign_in import remember_device
from ingress.console.refusals import Refused, known, refusal
from ingress.console.signed_in import see_other

log = get_logger(__name__)

_PATH = "/sign-in/openid"
_MINUTES = 10
"""Time for the person to sign in at the provider."""
_LONGEST_COOKIE = 3500
_LONGEST_CODE = 4096


class _Begun(NamedTuple):
    """The contents of the cookie until the browser is back."""

    token: str
    link: str
    """The token of the open invitation; empty without one."""
    next_path: str

    def written(self) -> str:
        return ".".join((self.token, quote(self.link, safe=""), quote(self.next_path, safe="")))

    @classmethod
    def read(cls, cookie: str | None) -> "_Begun | None":
        parts = (cookie or "").split(".", 2)  # tokens have no dots
        return cls(parts[0], unquote(parts[1]), own_path(unquote(parts[2]))) if len(parts) == 3 else None


async def begin(console: Console, request: Request, query: Form) -> Response:
    next_path = own_path(query.text("next", most=LONGEST_NEXT))
    return await _begin(console, request, _Begun(new_token(), "", next_path))


async def accept_invitation(console: Console, request: Request, _: Form) -> Response:
    return await _begin(console, request, _Begun(new_token(), request.path_params["token"][:100], "/"))


async def _begin(console: Console, request: Request, begun: _Begun) -> Response:
    """Send the browser to the provider."""
    provider = _provider(console)
    network = network_of_client(request)
    try:
        async with console.provider_requests.permit(site_of(network), patience_seconds=PATIENCE_SECONDS):
            url = await provider.sign_in_url(OpenIdAttempt.of(begun.token), redirect_uri=_back(console))
    except ProviderAway as error:
        raise _away(provider, error) from None
    response = see_other(url)
    set_cookie(request, response, OPENID, begun.written(), seconds=_MINUTES * 60)
    return response


def _provider(console: Console) -> OpenIdProvider:
    return known(console.provider)


def _back(console: Console) -> str:
    return f"{console.settings.console_address()}{_PATH}/callback"


async def come_back(console: Console, request: Request, query: Form) -> Response:
    """Take the browser back from the provider, and sign its user in. The attempt is over, however it ends."""
    begun = _Begun.read(read_cookie(request, OPENID, most=_LONGEST_COOKIE))
    try:
        response = await _finish(console, request, query, begun)
    except Refused as refused:
        response = refusal(request, refused)
    remove_cookie(request, response, OPENID)
    return response


async def _finish(console: Console, request: Request, query: Form, begun: _Begun | None) -> Response:
    provider, network, now = _provider(console), network_of_client(request), clock.now()
    attempt = OpenIdAttempt.of(begun.token if begun is not None else new_token())
    is_own = hmac.compare_digest(_given(query, "state").encode(errors="replace"), attempt.state.encode())
    if begun is None or not is_own:
        raise Refused(
            403,
            "This sign-in was not begun here",
            f"It was begun in another browser, or more than {_MINUTES} minutes ago. Sign in once more.",
        )
    if _given(query, "error") or not _given(query, "code"):
        raise Refused(403, "You are not signed in", f"{provider.label} says that the sign-in was stopped. Try again.")
    await console.pages.run(site_of(network), partial(_take_attempt, console, network))
    try:
        async with console.provider_requests.permit(site_of(network), patience_seconds=PATIENCE_SECONDS):
            identity = await provider.prove(
                attempt, _given(query, "code"), issuer=_given(query, "iss"), redirect_uri=_back(console), now=now
            )
    except ProviderAway as error:
        raise _away(provider, error) from None
    except ProofRefused as error:
        log.warning("console.openid_refused", address=network, reason=str(error))
        raise Refused(
            403, "The sign-in does not hold", f"The answer of {provider.label} proves nothing. Sign in once more."
        ) from None
    return await console.pages.run(site_of(network), partial(_sign_in, console, request, provider, identity, begun))


def _given(query: Form, name: str) -> str:
    return query.text(name, most=_LONGEST_CODE)


def _take_attempt(console: Console, network: str) -> Response:
    """Count the attempt before it is made. Raises Refused, with the time to wait, after too many."""
    with console.database.transaction(EVERYTHING) as connection:
        wait = take_attempt(connection, counters_of_openid(network), now=clock.now())
    if wait:
        seconds = counted(max(1, round(wait.total_seconds())), "second")
        raise Refused(429, "Too many attempts", f"Try again in {seconds}.")
    return Response()


def _sign_in(
    console: Console, request: Request, provider: OpenIdProvider, identity: ProvedIdentity, begun: _Begun
) -> Response:
    """Sign in the user to whom the account is bound, or ask whether it shall be bound. Raises Refused for an account
    without a user."""
    network, now = network_of_client(request), clock.now()
    with console.database.transaction(EVERYTHING) as connection:
        user = user_of_identity(connection, identity, link=begun.link, now=now)
        if isinstance(user, NoUser):
            log.warning("console.openid_refused", address=network, reason=str(user))
            raise _nobody(provider, identity.email, user)
        forgive(connection, counters_of_openid(network))
        if isinstance(user, BoundUser):
            return _signed_in(connection, request, user, begun.next_path, now)
        token = remember_proof(connection, identity, user, link=begun.link, next_path=begun.next_path, now=now)
    account = identity.email or f"number {identity.subject}, without a verified e-mail address"
    return console.render(request, "bind_openid.html", user=user, account=account, proof=token)


def _signed_in(connection: Connection, request: Request, user: BoundUser, next_path: str, now: datetime) -> Response:
    network = network_of_client(request)
    signed_in = sessions.sign_in_by_openid(
        connection, user, device=read_cookie(request, DEVICE), network=network, now=now
    )
    log.info("console.signed_in", user_id=user.id, address=network, by="openid")
    response = see_other(next_path)
    set_cookie(request, response, SESSION, signed_in.session)
    remember_device(request, response, signed_in.device)
    return response


async def bind(console: Console, request: Request, form: Form) -> Response:
    """Take the answer of the person who was asked to agree."""
    return await console.pages.run(site_of(network_of_client(request)), partial(_bind, console, request, form))


def _bind(console: Console, request: Request, form: Form) -> Response:
    """Bind the account to the user and sign the user in. Raises Refused if it cannot be bound any more."""
    provider, now = _provider(console), clock.now()
    with console.database.transaction(EVERYTHING) as connection:
        agreed = bind_proved_account(connection, form.text("proof"), now=now)
        if isinstance(agreed, Agreed):
            return _signed_in(connection, request, agreed.user, own_path(agreed.next_path), now)
    log.warning("console.openid_refused", address=network_of_client(request), reason=str(agreed))
    raise _nobody(provider, None, agreed)


def ask_again(_: Console, __: Request, ___: Form) -> Response:
    """Says that the page which asks is shown only once, on the way back from the provider."""
    return see_other("/sign-in")


def _away(provider: OpenIdProvider, error: ProviderAway) -> Refused:
    log.warning("console.openid_away", reason=str(error))
    return Refused(
        503,
        f"{provider.label} does not answer",
        "You are not signed in. Try again in a moment, or sign in with your password.",
    )


def _nobody(provider: OpenIdProvider, email: str | None, reason: NoUser) -> Refused:
    """The refusal of a person whom the provider knows, and we do not."""
    label, email = provider.label, email or "your account"
    titles = {
        NoUser.UNKNOWN: (
            "You are not invited yet",
            f"No user of Fuelroute has the address {email}. Ask an owner of your company for an invitation.",
        ),
        NoUser.UNVERIFIED: (
            "Your e-mail address is not verified",
            f"{label} has not verified the e-mail address of your account. Verify it there and sign in once more, or"
            " ask an owner of your company for a link, open it, and sign in from there.",
        ),
        NoUser.OTHER_ACCOUNT: (
            "This user signs in with another account",
            f"{email} is bound to another account of {label}. Ask an owner of your company for a new link: open it, and"
            " sign in from there.",
        ),
        NoUser.OTHER_USER: (
            "This account belongs to another user",
            f"Sign in at {label} with the account of the person who was invited.",
        ),
        NoUser.OTHER_ADDRESS: (
            "This invitation is for another address",
            f"You are signed in at {label} as {email}. Sign in there with the address that was invited, or ask an owner"
            f" of the company to invite {email}.",
        ),
        NoUser.ASKED_LONG_AGO: (
            "This question has ended",
            "It was answered already, or is too old. Sign in once more.",
        ),
        NoUser.LINK_ENDED: (
            "This invitation has ended",
            f"It was used already, or is older than {LINK_HOURS} hours. Ask an owner of your company for a new link.",
        ),
        NoUser.OPERATOR: (
            "Operators sign in with their password",
            f"Whoever runs {label} does not see every company. Use your password and one-time code.",
        ),
    }
    return Refused(403, *titles[reason])


ADDRESSES = [
    awaited_page_at(_PATH, begin),
    awaited_page_at(f"{_PATH}/callback", come_back),
    awaited_page_at("/set-password/{token}/openid", accept_invitation),
    open_page_at(f"{_PATH}/bind", ask_again, bind),
]
