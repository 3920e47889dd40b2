"""The page Your account: password and one-time codes. The page Companies: an operator chooses the company whose pages
are shown."""

from functools import partial

import pyotp
from starlette.responses import Response

from domain.accounts import own_account, sessions
from domain.accounts.attempts import DEVICE, AttemptCounter, forgive, take_attempt
from domain.accounts.passwords import MIN_CHARACTERS, UnusablePassword
from domain.accounts.recovery_codes import RECOVERY_CODES, count_recovery_codes
from domain.accounts.users import EVERYBODY, MAY_OPERATE
from domain.audit.entries import Actor
from domain.ids import read_id
from domain.wording import counted
from ingress.console.addresses import action_at, in_password_thread, page_at
from ingress.console.browser import LONGEST_NEXT, SESSION, network_of_client, own_path, remove_cookie
from ingress.console.pages.company.sign_in import remember_device
from ingress.console.refusals import FormFault, Refused, known, not_found
from ingress.console.signed_in import Page, see_other

_DONE = {
    "no-codes": "One-time codes are off.",
}
_CODES_ON = "One-time codes are on: you need one when you sign in with your password."
_MAX_COMPANIES = 100


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    secret = page.form.text("secret") if page.request.method == "POST" else ""
    secret = secret if _is_secret(secret) else pyotp.random_base32()
    return page.render(
        "account.html",
        status=status,
        section="account",
        browsers=sessions.count_sessions(page.connection, page.session.user_id, now=page.now),
        min_characters=MIN_CHARACTERS,
        secret=secret,
        secret_uri=pyotp.TOTP(secret).provisioning_uri(name=page.session.email, issuer_name="Fuelroute"),
        recovery_codes=count_recovery_codes(page.connection, page.session.user_id) if page.session.has_totp else 0,
        most_recovery_codes=RECOVERY_CODES,
        done=_DONE.get(page.form.text("done"), ""),
        is_recovered=page.form.text("done") == "recovery",
        next=own_path(page.form.text("next", most=LONGEST_NEXT)),
        fault=fault,
    )


def change_password(page: Page, by: Actor) -> Response:
    """Change the password and end every session, this one too."""
    if page.form.secret("password") != page.form.secret("again"):
        raise FormFault("the two passwords differ")
    _require_password(page)
    own_account.change_password(page.connection, page.session.user_id, page.form.secret("password"), by)
    response = see_other("/sign-in?done=password")
    remove_cookie(page.request, response, SESSION)
    network = network_of_client(page.request)
    device = sessions.add_device(page.connection, page.session.user_id, network=network, now=page.now)
    remember_device(page.request, response, device)
    return response


def remove_openid(page: Page, by: Actor) -> Response:
    """End the binding to the account of the provider, and every session, this one too."""
    own_account.remove_openid(page.connection, page.session.user_id, by)
    response = see_other("/sign-in?done=openid")
    remove_cookie(page.request, response, SESSION)
    return response


def use_codes(page: Page, by: Actor) -> Response:
    """Ask for one-time codes from now on, once the user's app has shown that it knows the secret."""
    secret = page.form.text("secret")
    if not _is_secret(secret):
        raise FormFault("load the page again to get a new secret")
    _require_password(page)
    try:
        step = sessions.step_of_code(secret, page.form.text("code"), page.now)
    except ValueError:  # letters and digits that are not base32
        step = None
    if step is None:
        raise FormFault("this code is wrong. Type the one that your app shows now")
    codes = own_account.use_codes(
        page.connection,
        page.session.user_id,
        secret,
        by,
        used_step=step,
        contacts=page.console.contacts,
        now=page.now,
    )
    return _recovery_codes(page, codes, _CODES_ON)


def _is_secret(text: str) -> bool:
    return len(text) == 32 and text.isascii() and text.isalnum() and text.isupper()


def _recovery_codes(page: Page, codes: list[str], done: str) -> Response:
    """Show the codes, on the only page that ever does. It cannot be loaded again."""
    return page.render("recovery_codes.html", section="account", codes=codes, done=done)


def renew_recovery_codes(page: Page, by: Actor) -> Response:
    if not page.session.has_totp:
        raise FormFault("turn on one-time codes first", 409)
    _require_password(page)
    codes = own_account.renew_recovery_codes(page.connection, page.session.user_id, by, now=page.now)
    return _recovery_codes(page, codes, "The earlier recovery codes have ended.")


def remove_codes(page: Page, by: Actor) -> Response:
    _require_password(page)
    own_account.remove_codes(page.connection, page.session.user_id, by, contacts=page.console.contacts)
    return see_other("/account?done=no-codes")


def _require_password(page: Page) -> None:
    """Check the present password. Raises FormFault for another one. Guesses are slowed down here, too, because the
    browser may have been left open."""
    counters = [AttemptCounter.of(DEVICE, "account", str(page.session.user_id))]
    wait = take_attempt(page.connection, counters, now=page.now)
    if wait:
        raise Refused(429, "Too many attempts", f"Try again in {counted(round(wait.total_seconds()) or 1, 'second')}.")
    if not sessions.is_password_of(page.connection, page.session.user_id, page.form.secret("present")):
        raise FormFault("this is not your current password", 403)
    forgive(page.connection, counters)


def list_companies(page: Page) -> Response:
    text = page.form.text("q")
    found = sessions.choosable_companies(page.connection, text, limit=_MAX_COMPANIES)
    return page.render("companies.html", section="companies", companies=found, q=text, most=_MAX_COMPANIES)


def choose_company(page: Page, by: Actor) -> Response:
    company_id = known(read_id("cmp", page.form.text("company_id")))
    if not sessions.choose_company(page.connection, page.token, company_id, by):
        raise not_found()
    return see_other(own_path(page.form.text("next")))


_own_action_at = partial(action_at, by=EVERYBODY, run=in_password_thread, again=show, faults={UnusablePassword: 400})
ADDRESSES = [
    page_at("/account", show),
    _own_action_at("/account/password", change_password),
    action_at("/account/openid/remove", remove_openid, by=EVERYBODY),
    _own_action_at("/account/codes", use_codes),
    _own_action_at("/account/recovery-codes", renew_recovery_codes),
    _own_action_at("/account/codes/remove", remove_codes),
    page_at("/companies", list_companies, by=MAY_OPERATE),
    action_at("/companies", choose_company, by=MAY_OPERATE),
]
