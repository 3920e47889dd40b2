"""The page API Keys: keys are created, rotated and revoked."""

from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from starlette.responses import Response

from domain.accounts.keys import NewKey, StoredKey, create_key, list_keys, revoke_key_of, rotate_key
from domain.accounts.users import MAY_MANAGE_KEYS
from domain.audit.entries import Actor
from domain.contract.shapes import SCOPES
from domain.lifecycle import Environment
from domain.telemetry.logs import get_logger
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import FormFault, Refused, known, not_found
from ingress.console.signed_in import Page, see_other

log = get_logger(__name__)

_OVERLAPS = {
    "1": "1 hour",
    "24": "1 day",
    "168": "7 days",
    "720": "30 days",
}
"""The overlaps of two keys to choose from, by their hours."""

_DONE = {"revoked": "The key is revoked. Requests that use it are refused from now on."}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    keys = sorted(list_keys(page.connection, page.company_id), key=lambda key: key.created_at, reverse=True)
    states = {key.id: _state(key, page.now) for key in keys}
    return page.render(
        "keys.html",
        status=status,
        section="keys",
        keys=[key for key in keys if states[key.id] == "valid"],
        ended=[key for key in keys if states[key.id] != "valid"],
        states=states,
        scopes=SCOPES,
        environments=list(Environment),
        overlaps=_OVERLAPS,
        form=page.form,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def _state(key: StoredKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "valid"


def create(page: Page, by: Actor) -> Response:
    name, scopes, day = page.form.text("name"), page.form.all("scope"), page.form.text("expires_on")
    environment = page.form.choice("environment", Environment)
    company_id = page.company_id
    if not name:
        raise FormFault("give the key a name, such as the system that will use it")
    if environment is None:
        raise FormFault("choose an environment")
    if not scopes or not set(scopes) <= set(SCOPES):
        raise FormFault("choose at least one scope")
    try:
        expires_at = _end_of(day, page.session.time_zone) if day else None
    except (ValueError, OverflowError):
        raise FormFault("the day on which the key expires is no date") from None
    if expires_at is not None and expires_at <= page.now:
        raise FormFault("the day on which the key expires is past")
    made = create_key(
        page.connection,
        company_id,
        by,
        name=name,
        environment=environment,
        scopes=scopes,
        expires_at=expires_at,
    )
    log.info("console.key_created", key_id=made.id, company_id=company_id, user_id=page.session.user_id)
    return _made(page, made, name, expires_at)


def _end_of(day: str, time_zone: str) -> datetime:
    """The end of the day, through which the key is still valid."""
    midnight = datetime.combine(datetime.fromisoformat(day).date(), time(), ZoneInfo(time_zone))
    return midnight + timedelta(days=1)


def _made(
    page: Page, made: NewKey, name: str, expires_at: datetime | None, *, old_ends_at: datetime | None = None
) -> Response:
    """Show the key, on the only page that ever does. It cannot be loaded again."""
    return page.render(
        "key_made.html",
        section="keys",
        key=made.key,
        name=name,
        expires_at=expires_at,
        old_ends_at=old_ends_at,
        api_url=page.console.settings.api_address(),
    )


def revoke(page: Page, by: Actor) -> Response:
    key_id = page.id_in_address("key")
    if not revoke_key_of(page.connection, page.company_id, key_id, by):
        raise not_found()
    log.info("console.key_revoked", key_id=key_id, company_id=page.company_id, user_id=page.session.user_id)
    return see_other("/keys?done=revoked")


def rotate(page: Page, by: Actor) -> Response:
    key_id, hours = page.id_in_address("key"), page.form.text("overlap_hours")
    if hours not in _OVERLAPS:
        raise Refused(400, "How long shall both keys work?", "Go back and choose one of the lengths.")
    name = next((key.name for key in list_keys(page.connection, page.company_id) if key.id == key_id), "")
    overlap = timedelta(hours=int(hours))
    made = known(rotate_key(page.connection, page.company_id, key_id, by, overlap=overlap, now=page.now))
    log.info(
        "console.key_rotated",
        key_id=key_id,
        new_key_id=made.id,
        company_id=page.company_id,
        user_id=page.session.user_id,
    )
    return _made(page, made, name, None, old_ends_at=page.now + overlap)


ADDRESSES = [
    page_at("/keys", show),
    action_at("/keys", create, by=MAY_MANAGE_KEYS, again=show),
    action_at("/keys/{id}/revoke", revoke, by=MAY_MANAGE_KEYS),
    action_at("/keys/{id}/rotate", rotate, by=MAY_MANAGE_KEYS),
]
