"""The pages Notices: who is told which needs by which channel, and what was sent. Operators have the same pages for
urgent needs of the whole service."""

import re
from collections.abc import Collection, Sequence
from uuid import UUID

from starlette.responses import Response
from starlette.routing import Route

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.users import MAY_MANAGE_NOTICES, MAY_MANAGE_USERS, MAY_OPERATE, list_users
from domain.audit.entries import Actor
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.notices import subscriptions
from domain.notices.notice_log import list_notices, send_test_notice
from domain.notices.subscriptions import (
    LONGEST_NAME,
    LONGEST_WAIT_MINUTES,
    OPERATORS,
    SUBSCRIPTIONS,
    Subscription,
    SubscriptionValues,
    UnusableSubscription,
    needs_of,
    proposed_kinds,
)
from domain.telemetry.logs import get_logger
from ingress.console.addresses import ActionHandler, Faults, action_at, page_at
from ingress.console.refusals import not_found
from ingress.console.signed_in import Page, named_in_address, see_other
from ingress.console.stale_forms import require_seen, state_of

log = get_logger(__name__)

MOST_SHOWN = 50
"""Number of notices shown, the newest."""

USUAL_WAIT_MINUTES = 5
"""The wait that the form proposes: problems that are solved within minutes need not be told."""

_DONE = {
    "added": "The subscription is added. A need that there is now is told soon.",
    "changed": "The subscription is changed.",
    "enabled": "The subscription is switched on.",
    "disabled": "The subscription is switched off: nothing is sent to it.",
    "removed": "The subscription is removed.",
    "test": "A test is on its way: load this page again to see what came of it.",
}
_PATH, _PATH_OF_OPERATORS = "/notices", "/operator-notices"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


def _is_of_operators(page: Page) -> bool:
    return page.request.url.path.startswith(_PATH_OF_OPERATORS)


def _owner(page: Page) -> UUID:
    """The company whose pages are shown, or the OPERATORS."""
    return OPERATORS if _is_of_operators(page) else page.company_id


def _path(page: Page) -> str:
    return _PATH_OF_OPERATORS if _is_of_operators(page) else _PATH


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    found = [one for one in SUBSCRIPTIONS.all(page.connection, _owner(page)) if _is_for(page, one)]
    is_everything = page.session.role in MAY_MANAGE_USERS
    return page.render(
        "notices.html",
        status=status,
        subscriptions=found,
        emails=_emails(page),
        notices=list_notices(
            page.connection,
            _owner(page),
            subscription_ids=None if is_everything else [one.id for one in found],
            limit=MOST_SHOWN,
        ),
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
        **_form(page, None),
    )


def _is_for(page: Page, subscription: Subscription) -> bool:
    return subscription.is_for(page.session.user_id, page.session.role)


def _emails(page: Page) -> dict[UUID, str]:
    """The e-mail addresses of the people whose subscriptions are shown."""
    if _is_of_operators(page):
        return {}
    if page.session.role in MAY_MANAGE_USERS:
        return {user.id: user.email for user in list_users(page.connection, page.company_id)}
    return {page.session.user_id: page.session.email}


def _form(page: Page, stored: Subscription | None) -> dict[str, object]:
    """The form's values: the sent ones, or else the stored ones, or else proposals."""
    form = page.form
    sent = page.request.method == "POST" and bool(form.text("name") or form.all("kind"))
    needs = needs_of(_owner(page))
    kinds = form.all("kind") if sent else list(stored.kinds) if stored is not None else proposed_kinds(_owner(page))
    own_minutes = stored.minutes_by_kind if stored is not None else {}
    quiet = stored.quiet_hours if stored is not None else None
    minutes = stored.after_minutes if stored is not None else USUAL_WAIT_MINUTES
    return {
        "section": "queues" if _is_of_operators(page) else "notices",
        "base": _path(page),
        "is_of_operators": _is_of_operators(page),
        "kinds": {kind: need.label for kind, need in needs.items()},
        "chosen": kinds,
        "minutes_of": {
            kind: form.text(f"minutes_{kind}") if sent else str(own_minutes.get(kind, "")) for kind in needs
        },
        "name": form.text("name") if sent else stored.name if stored is not None else "",
        "after_minutes": form.text("after_minutes") if sent else str(minutes),
        "quiet_from": form.text("quiet_from") if sent else _shown_time(quiet.begin if quiet else None),
        "quiet_until": form.text("quiet_until") if sent else _shown_time(quiet.end if quiet else None),
        "time_zone": form.text("time_zone")
        if sent
        else (stored.time_zone if stored is not None else page.session.time_zone),
        "is_own": bool(form.text("own")),
        "may_be_own": page.session.role is not Role.OPERATOR,  # an operator's belongs to no person
        "longest_name": LONGEST_NAME,
        "longest_wait": LONGEST_WAIT_MINUTES,
    }


def _shown_time(minute: int | None) -> str:
    return "" if minute is None else f"{minute // 60:02}:{minute % 60:02}"


def _values(page: Page) -> SubscriptionValues:
    """The values of the form. Raises UnusableSubscription for those that cannot be set; the form is shown again."""
    own = {kind: text for kind in needs_of(_owner(page)) if (text := page.form.text(f"minutes_{kind}"))}
    return SubscriptionValues(
        name=page.form.text("name"),
        kinds=page.form.all("kind"),
        url=page.form.text("url", most=4_000) or None,
        after_minutes=_minutes(page.form.text("after_minutes") or "0"),
        minutes_by_kind={kind: _minutes(text) for kind, text in own.items()},
        quiet_from=_minute(page.form.text("quiet_from")),
        quiet_until=_minute(page.form.text("quiet_until")),
        time_zone=page.form.text("time_zone") or page.session.time_zone,
    )


def _minutes(text: str) -> int:
    """A wait in minutes. Raises UnusableSubscription for any other text."""
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        raise UnusableSubscription("the wait is a number of minutes")
    return int(text)


def _minute(text: str) -> int | None:
    """The minute of the day; None for an empty text. Raises UnusableSubscription for any other text."""
    if not text:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise UnusableSubscription("quiet hours are times from 00:00 to 23:59")
    return int(found[1]) * 60 + int(found[2])


def add(page: Page, by: Actor) -> Response:
    is_own = bool(page.form.text("own")) and page.session.role is not Role.OPERATOR
    made = subscriptions.add_subscription(
        page.connection,
        _owner(page),
        page.session.user_id if is_own else None,
        _values(page),
        by,
        allowed=AllowedHosts.of(page.console.settings),
        contacts=page.console.contacts,
    )
    return _done(page, made, "added")


def show_one(page: Page, *, fault: str = "", status: int = 200) -> Response:
    """A subscription and the notices to it, newest first."""
    one = _subscription(page)
    return page.render(
        "subscription.html",
        status=status,
        one=one,
        seen=state_of(_changeable(one)),
        emails=_emails(page),
        notices=list_notices(page.connection, _owner(page), subscription_ids=[one.id], limit=MOST_SHOWN),
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
        **_form(page, one),
    )


def _changeable(one: Subscription) -> tuple[object, ...]:
    quiet = (one.quiet_from, one.quiet_until, one.time_zone)
    return one.name, one.kinds, one.channel, one.after_minutes, sorted(one.minutes_by_kind.items()), *quiet


def change(page: Page, by: Actor) -> Response:
    one = _subscription(page)
    require_seen(page, _changeable(one), "this subscription")
    subscriptions.change_subscription(
        page.connection,
        _owner(page),
        one.id,
        _values(page),
        by,
        allowed=AllowedHosts.of(page.console.settings),
        contacts=page.console.contacts,
        now=page.now,
    )
    return _done(page, one, "changed")


def enable(page: Page, by: Actor) -> Response:
    one = _subscription(page)
    subscriptions.enable_subscription(page.connection, _owner(page), one.id, by)
    return _done(page, one, "enabled")


def disable(page: Page, by: Actor) -> Response:
    one = _subscription(page)
    subscriptions.disable_subscription(page.connection, _owner(page), one.id, by, now=page.now)
    return _done(page, one, "disabled")


def remove(page: Page, by: Actor) -> Response:
    subscriptions.remove_subscription(page.connection, _owner(page), _subscription(page).id, by)
    return see_other(f"{_path(page)}?done=removed")


def test(page: Page, by: Actor) -> Response:
    """Send a test to a subscription. Raises UnusableSubscription after too many; the page says so."""
    one = _subscription(page)
    send_test_notice(
        page.connection,
        _owner(page),
        one.id,
        by,
        company="Fuelroute" if _is_of_operators(page) else page.session.company_name or "",
        console=page.console.settings.console_address(),
        now=page.now,
    )
    return _done(page, one, "test")


def _subscription(page: Page) -> Subscription:
    """The subscription in the address. Raises UnknownSubscription or Refused if the person may not see it."""
    one = named_in_address(page, SUBSCRIPTIONS, _owner(page))
    if not _is_for(page, one):
        raise not_found()
    return one


def _done(page: Page, one: Subscription, done: str) -> Response:
    log.info(f"console.subscription_{done}", subscription_id=one.id, company_id=one.company_id)
    return see_other(f"{_path(page)}/{shown_id('sub', one.id)}?done={done}")


_ACTIONS: Sequence[tuple[str, ActionHandler]] = (
    ("enable", enable),
    ("disable", disable),
    ("remove", remove),
    ("test", test),
)


_FAULTS: Faults = {UnusableSubscription: 400}


def _addresses(path: str, by: Collection[Role]) -> list[Route]:
    return [
        page_at(path, show, by=by),
        action_at(path, add, by=by, again=show, faults=_FAULTS),
        page_at(f"{path}/{{id}}", show_one, by=by),
        action_at(f"{path}/{{id}}/change", change, by=by, again=show_one, faults=_FAULTS),
        *(action_at(f"{path}/{{id}}/{name}", handler, by=by) for name, handler in _ACTIONS),
    ]


ADDRESSES = [
    *_addresses(_PATH, MAY_MANAGE_NOTICES),
    *_addresses(_PATH_OF_OPERATORS, MAY_OPERATE),
]
