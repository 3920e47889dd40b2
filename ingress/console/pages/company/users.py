"""The page Users: owners invite people of their company, change their roles, and remove them."""

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
from domain.ids import read_id
from domain.lifecycle import Role
from domain.wording import sentence
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import not_found
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


def invite(page: Page, by: Actor) -> Response:
    role = page.form.choice("role", _ROLES)
    if role is None:
        return _users(page, fault="Choose a role.", status=400)
    email = tidy_email(page.form.text("email"))
    try:
        user_id = create_user(page.connection, by, email=email, role=role, company_id=page.company_id)
    except UnusableUser as error:
        return _users(page, fault=sentence(str(error)), status=400)
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
        return _users(page, fault="Choose a role.", status=400)
    try:
        set_role(page.connection, page.company_id, user, role, by)
    except LastOwner as error:
        return _users(page, fault=sentence(str(error)), status=409)
    return see_other("/users?done=role")


def remove(page: Page, by: Actor) -> Response:
    user = _user(page)
    try:
        remove_user_of(page.connection, page.company_id, user, by)
    except LastOwner as error:
        return _users(page, fault=sentence(str(error)), status=409)
    return see_other("/users?done=removed" if user.id != page.session.user_id else "/sign-in")


def _user(page: Page) -> StoredUser:
    user_id = read_id("usr", page.request.path_params["id"])
    user = lock_user_of(page.connection, page.company_id, user_id) if user_id is not None else None
    if user is None:
        raise not_found()
    return user


ADDRESSES = [
    page_at("/users", show, by=MAY_MANAGE_USERS),
    action_at("/users", invite, by=MAY_MANAGE_USERS),
    action_at("/users/{id}/role", change_role, by=MAY_MANAGE_USERS),
    action_at("/users/{id}/link", renew_link, by=MAY_MANAGE_USERS),
    action_at("/users/{id}/remove", remove, by=MAY_MANAGE_USERS),
]
