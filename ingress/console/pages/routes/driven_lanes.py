"""The page Driven lanes: the roads of plans that trucks took before, and their reset."""

from uuid import UUID

from starlette.responses import Response

from domain.accounts.users import MAY_EDIT_POLICY
from domain.audit.entries import Actor
from domain.driven_lanes.lanes import list_lanes, reset_lane
from domain.ids import shown_id
from domain.lifecycle import Environment
from ingress.console.addresses import action_at, page_at
from ingress.console.refusals import not_found
from ingress.console.signed_in import Page, see_other

_PATH = "/savings/lanes"
_LANES = 50


def show(page: Page) -> Response:
    tenant, number = page.tenant, page.form.number("page")
    found = list_lanes(page.connection, tenant, limit=_LANES + 1, offset=number * _LANES)
    return page.render(
        "driven_lanes.html",
        section="savings",
        tenant=tenant,
        environments=list(Environment),
        lanes=found[:_LANES],
        number=number,
        has_more=len(found) > _LANES,
        route_shown=lambda text: shown_id("rte", UUID(text)),
        path=_PATH,
        may_reset=page.session.role in MAY_EDIT_POLICY,
        done="The lane is forgotten. It is learned anew from the trips to come." if page.form.text("done") else "",
    )


def reset(page: Page, by: Actor) -> Response:
    tenant = page.tenant
    try:
        lane_id = UUID(page.form.text("lane"))
    except ValueError:
        raise not_found() from None
    if not reset_lane(page.connection, tenant, lane_id, by):
        raise not_found()
    return see_other(f"{_PATH}?environment={tenant.environment}&done=reset")


ADDRESSES = [
    page_at(_PATH, show),
    action_at(f"{_PATH}/reset", reset, by=MAY_EDIT_POLICY),
]
