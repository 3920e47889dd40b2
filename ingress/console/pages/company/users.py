"""The page Users: owners invite people of their company, change their roles, and remove them."""

from functools import partial

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
    reset_user,
    set_role,
    tidy_email,
)
from domain.audit.entries import Actor
from domain.lifecycle import Role
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import FormFault, known
from ingress.console.signed_in import Page, see_other

_ROLES = {
    Role.VIEWER: "sees every page of the company",
    Role.DISPATCHER: "also maps units and drivers, acts on routes, edits the fleet",
    Role.OWNER: "also manages keys, webhooks, policy and users",
}
"""The roles that an owner can give, with their rights."""

_DONE = {
    "role": "The role is changed. It counts from the next page on.",
    "removed": "The user is removed, and signed out everywhere.",
}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
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


def invite(page: Page, by: Actor) -> Response:
    role = page.form.choice("role", _ROLES)
    if role is None:
        raise FormFault("choose a role")
    email = tidy_email(page.form.text("email"))
    user_id = create_user(page.connection, by, email=email, role=role, company_id=page.company_id)
    return _link(page, email, make_password_link(page.connection, user_id, now=page.now), is_new=True)


def _link(page: Page, email: str, token: str, *, is_new: bool) -> Response:
    """Show the link, on the only page that ever does. It cannot be loaded again."""
    return page.render(
        "user_link.html",
        section="users",
        email=email,
        link=f"{page.console.settings.console_address()}/set-password/{token}",
        link_hours=LINK_HOURS,
        is_new=is_new,
    )


def renew_link(page: Page, by: Actor) -> Response:
    """Make a link that sets a new password; the user's old one works until then."""
    user = _user(page)
    token = reset_user(
        page.connection,
        user.id,
        by,
        without_codes=bool(page.form.text("without_codes")),
        contacts=page.console.contacts,
        now=page.now,
    )
    return _link(page, user.email, token, is_new=False)


def change_role(page: Page, by: Actor) -> Response:
    user, role = _user(page), page.form.choice("role", _ROLES)
    if role is None:
        raise FormFault("choose a role")
    set_role(page.connection, page.company_id, user, role, by)
    return see_other("/users?done=role")


def remove(page: Page, by: Actor) -> Response:
    user = _user(page)
    remove_user_of(page.connection, page.company_id, user, by)
    return see_other("/users?done=removed" if user.id != page.session.user_id else "/sign-in")


def _user(page: Page) -> StoredUser:
    return known(lock_user_of(page.connection, page.company_id, page.id_in_address("usr")))


_action_at = partial(action_at, by=MAY_MANAGE_USERS, again=show, faults={UnusableUser: 400, LastOwner: 409})
ADDRESSES = [
    page_at("/users", show, by=MAY_MANAGE_USERS),
    _action_at("/users", invite),
    _action_at("/users/{id}/role", change_role),
    _action_at("/users/{id}/link", renew_link),
    _action_at("/users/{id}/remove", remove),
]
