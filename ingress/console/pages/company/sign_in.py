"""The pages to sign in and out, and the one-time link that sets a password."""

from functools import partial
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from domain import clock
from domain.accounts import sessions
from domain.accounts.attempts import site_of
from domain.accounts.passwords import MIN_CHARACTERS, UnusablePassword
from domain.accounts.sessions import DEVICE_DAYS, SignInRefused
from domain.accounts.users import EVERYBODY, LINK_HOURS, email_of_link, set_password_by_link
from domain.audit.entries import Actor
from domain.database.visibility import EVERYTHING
from domain.telemetry.logs import get_logger
from domain.wording import counted, sentence
from ingress.console.addresses import action_at, open_page_at
from ingress.console.browser import (
    DEVICE,
    LONGEST_NEXT,
    SESSION,
    Form,
    network_of_client,
    own_path,
    read_cookie,
    remove_cookie,
    set_cookie,
)
from ingress.console.console import Console
from ingress.console.signed_in import Page, see_other

log = get_logger(__name__)


def show(console: Console, request: Request, query: Form) -> Response:
    done = {
        "out": "You are signed out.",
        "everywhere": "You are signed out in every browser.",
        "openid": "The account signs you in no more, and you are signed out everywhere.",
        "password": "Your password is set: sign in with it.",
    }.get(query.text("done"), "")
    return console.render(
        request, "sign_in.html", email="", next=own_path(query.text("next", most=LONGEST_NEXT)), done=done, fault=""
    )


async def act(console: Console, request: Request, form: Form) -> Response:
    network, device = network_of_client(request), read_cookie(request, DEVICE)
    work = partial(_sign_in, console, request, form)
    if device is not None:
        share = await console.pages.run(site_of(network), partial(_share_of, console, device, form))
        if share is not None:
            return await console.known_browsers.run(share, work, network=network)
    return await console.passwords.run(site_of(network), work)


def _share_of(console: Console, device: str, form: Form) -> str | None:
    """The owner of a known browser's share; None for an unknown browser."""
    with console.database.transaction(EVERYTHING) as connection:
        return sessions.share_of_device(connection, device, form.text("email"), now=clock.now())


def _sign_in(console: Console, request: Request, form: Form) -> Response:
    email, next_path, now = form.text("email"), own_path(form.text("next", most=LONGEST_NEXT)), clock.now()

    answer = sessions.sign_in(
        partial(console.database.transaction, EVERYTHING),
        email=email,
        password=form.secret("password"),
        code=form.text("code"),
        device=read_cookie(request, DEVICE),
        network=network_of_client(request),
        contacts=console.contacts,
        now=now,
    )
    if isinstance(answer, SignInRefused):
        fault = "E-mail, password or one-time code is wrong."
        if answer.wait:
            seconds = max(1, round(answer.wait.total_seconds()))
            fault = f"Too many attempts: try again in {counted(seconds, 'second')}."
        status = 429 if answer.wait else 403
        log.warning("console.sign_in_refused", address=network_of_client(request), status=status)
        return console.render(request, "sign_in.html", status=status, email=email, next=next_path, done="", fault=fault)
    log.info("console.signed_in", user_id=answer.user_id, address=network_of_client(request))
    told = f"/account?{urlencode({'done': 'recovery', 'next': next_path})}"
    response = see_other(next_path if answer.recovery_codes_left is None else told)
    # A fresh token: the browser's earlier one, which others may know, does not sign in.
    set_cookie(request, response, SESSION, answer.session)
    remember_device(request, response, answer.device)
    return response


def remember_device(request: Request, response: Response, device: str) -> None:
    """Remember the browser as known, so that guesses elsewhere do not slow it down."""
    set_cookie(request, response, DEVICE, device, seconds=DEVICE_DAYS * 86_400)


def sign_out(page: Page, _: Actor) -> Response:
    sessions.sign_out(page.connection, page.token)
    return _signed_out(page, "out")


def sign_out_everywhere(page: Page, by: Actor) -> Response:
    sessions.sign_out_everywhere(page.connection, page.session.user_id, by)
    return _signed_out(page, "everywhere")


def _signed_out(page: Page, done: str) -> Response:
    response = see_other(f"/sign-in?done={done}")
    remove_cookie(page.request, response, SESSION)
    return response


def show_link(console: Console, request: Request, _: Form) -> Response:
    """Show the form behind a link. The link stays valid: mail programs open links too."""
    with console.database.transaction(EVERYTHING) as connection:
        email = email_of_link(connection, request.path_params["token"], now=clock.now())
    return _link_page(console, request, email)


async def use_link(console: Console, request: Request, form: Form) -> Response:
    work = partial(_use_link, console, request, form)
    return await console.passwords.run(site_of(network_of_client(request)), work)


def _use_link(console: Console, request: Request, form: Form) -> Response:
    now, token = clock.now(), request.path_params["token"]
    fault = "" if form.secret("password") == form.secret("again") else "The two passwords differ."
    with console.database.transaction(EVERYTHING) as connection:
        email = email_of_link(connection, token, now=now)
        if email is not None and not fault:
            try:
                user_id = set_password_by_link(connection, token, form.secret("password"), now=now)
                response = see_other("/sign-in?done=password")
                if user_id is not None:
                    device = sessions.add_device(connection, user_id, network=network_of_client(request), now=now)
                    remember_device(request, response, device)
                return response
            except UnusablePassword as error:
                fault = sentence(str(error))
    return _link_page(console, request, email, fault)


def _link_page(console: Console, request: Request, email: str | None, fault: str = "") -> Response:
    status = 404 if email is None else 400 if fault else 200
    return console.render(
        request,
        "set_password.html",
        status=status,
        email=email,
        link_token=request.path_params["token"],
        fault=fault,
        min_characters=MIN_CHARACTERS,
        link_hours=LINK_HOURS,
    )


ADDRESSES = [
    open_page_at("/sign-in", show, act),
    open_page_at("/set-password/{token}", show_link, use_link),
    action_at("/sign-out", sign_out, by=EVERYBODY),
    action_at("/sign-out-everywhere", sign_out_everywhere, by=EVERYBODY),
]
