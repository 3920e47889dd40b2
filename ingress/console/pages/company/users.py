"""The page Users: owners invite people of their company, change their roles, and remove them."""

from uuid import UUID

from starlette.responses import Response

from domain.accounts.users import (
    LINK_HOURS,
    MAY_MANAGE_USERS,
    LastOwner,
    StoredUser,
    UnusableUser,
    create_user,
    list_users,
    lock_user_of,
    make_password_link,
    remove_user_of,
    set_role,
    set_totp,
    tidy_email,
)
from domain.ids import read_id, shown_id
from domain.lifecycle import Role
from domain.wording import sentence
from ingress.console.addresses import audited_action_at, page_at
from ingress.console.refusals import not_found
from ingress.console.signed_in import AuditedAction, Page, see_other

_ROLES = {
    Role.VIEWER: "sees every page of the company",
    Role.DISPATCHER: "also maps units and drivers, acts on routes, edits the fleet",
    Role.OWNER: "also manages keys, webhooks, policy and users",
}
"""The roles that an owner can give, and what each may do."""

_DONE = {
    "role": "The role is changed. It counts from the next page on.",
    "removed": "The user is removed, and signed out everywhere.",
}


def show(page: Page) -> Response:
    return _users(page)


def _users(page: Page, *, fault: str = "", status: int = 200) -> Response:
    return page.render(
        "users.html",
        status=status,
        section="users",
        users=list_users(page.connection, page.company_id),
        roles=_ROLES,
        form=page.form,
        link_hours=LINK_HOURS,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def invite(page: Page) -> Response:
    role = _role(page)
    if role is None:
        return _users(page, fault="Choose a role.", status=400)
    email = tidy_email(page.form.text("email"))
    try:
        user_id = create_user(page.connection, email=email, role=role, company_id=page.company_id)
    except UnusableUser as error:
        return _users(page, fault=sentence(str(error)), status=400)
    page.audited = AuditedAction(f"{shown_id('usr', user_id)} {role}")
    return _link(page, user_id, email, is_new=True)


def _role(page: Page) -> Role | None:
    """The role that the form names; None: none that an owner can give."""
    return next((role for role in _ROLES if role == page.form.text("role")), None)


def _link(page: Page, user_id: UUID, email: str, *, is_new: bool) -> Response:
    """The only page that ever shows the link. It cannot be loaded again."""
    token = make_password_link(page.connection, user_id, now=page.now)
    return page.render(
        "user_link.html",
        section="users",
        email=email,
        link=f"{page.console.settings.console_address()}/set-password/{token}",
        link_hours=LINK_HOURS,
        is_new=is_new,
    )


def renew_link(page: Page) -> Response:
    """Make a link that sets a new password; the user's old one works until then."""
    user = _user(page)
    without_codes = bool(page.form.text("without_codes"))
    if without_codes:
        set_totp(page.connection, user.id, None, contacts=page.console.contacts)
    page.audited = AuditedAction(f"{shown_id('usr', user.id)}{' without codes' if without_codes else ''}")
    return _link(page, user.id, user.email, is_new=False)


def change_role(page: Page) -> Response:
    user, role = _user(page), _role(page)
    if role is None:
        return _users(page, fault="Choose a role.", status=400)
    try:
        set_role(page.connection, page.company_id, user, role)
    except LastOwner as error:
        return _users(page, fault=sentence(str(error)), status=409)
    page.audited = AuditedAction(f"{shown_id('usr', user.id)} {role}, was {user.role}")
    return see_other("/users?done=role")


def remove(page: Page) -> Response:
    user = _user(page)
    try:
        remove_user_of(page.connection, page.company_id, user)
    except LastOwner as error:
        return _users(page, fault=sentence(str(error)), status=409)
    page.audited = AuditedAction(f"{shown_id('usr', user.id)} {user.role}")
    return see_other("/users?done=removed" if user.id != page.session.user_id else "/sign-in")


def _user(page: Page) -> StoredUser:
    user_id = read_id("usr", page.request.path_params["id"])
    user = lock_user_of(page.connection, page.company_id, user_id) if user_id is not None else None
    if user is None:
        raise not_found()
    return user


ADDRESSES = [
    page_at("/users", show, by=MAY_MANAGE_USERS),
    audited_action_at("/users", invite, by=MAY_MANAGE_USERS, audited_as="users.create"),
    audited_action_at("/users/{id}/role", change_role, by=MAY_MANAGE_USERS, audited_as="users.change_role"),
    audited_action_at("/users/{id}/link", renew_link, by=MAY_MANAGE_USERS, audited_as="users.reset"),
    audited_action_at("/users/{id}/remove", remove, by=MAY_MANAGE_USERS, audited_as="users.remove"),
]
