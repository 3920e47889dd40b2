"""Users' actions on their own accounts. Each writes to the audit log."""

from datetime import datetime
from uuid import UUID

from domain.accounts.contacts import Contacts
from domain.accounts.recovery_codes import make_recovery_codes
from domain.accounts.users import end_access, record_own_action, set_password, set_totp
from domain.audit.entries import Action, Actor
from domain.database.connections import Connection


def change_password(connection: Connection, user_id: UUID, password: str, by: Actor) -> None:
    """Sets the password and ends every session. Raises UnusablePassword."""
    set_password(connection, user_id, by.name, password)
    record_own_action(connection, by, Action("account.change_password"))


def remove_openid(connection: Connection, user_id: UUID, by: Actor) -> None:
    """Ends the binding to the account of the provider, and every session."""
    end_access(connection, user_id)
    record_own_action(connection, by, Action("account.remove_openid"))


def use_codes(
    connection: Connection, user_id: UUID, secret: str, by: Actor, *, used_step: int, contacts: Contacts, now: datetime
) -> list[str]:
    """Asks for one-time codes of the secret from now on. Returns recovery codes, which cannot be shown again."""
    set_totp(connection, user_id, secret, used_step=used_step, contacts=contacts)
    record_own_action(connection, by, Action("account.use_codes"))
    return make_recovery_codes(connection, user_id, now=now)


def renew_recovery_codes(connection: Connection, user_id: UUID, by: Actor, *, now: datetime) -> list[str]:
    """New recovery codes, in place of all earlier ones. They cannot be shown again."""
    record_own_action(connection, by, Action("account.renew_recovery_codes"))
    return make_recovery_codes(connection, user_id, now=now)


def remove_codes(connection: Connection, user_id: UUID, by: Actor, *, contacts: Contacts) -> None:
    set_totp(connection, user_id, None, contacts=contacts)
    record_own_action(connection, by, Action("account.remove_codes"))
