"""The decision on a tank that fuel cards contradict, from the page of a vehicle."""

from starlette.responses import Response

from domain.accounts.users import MAY_EDIT_FLEET
from domain.audit.entries import Actor
from domain.burn.tank_proposals import NoSuchProposal, keep_tank, take_tank
from domain.ids import read_id, shown_id
from domain.wording import sentence
from ingress.console.addresses import action_at
from ingress.console.refusals import Refused, not_found
from ingress.console.signed_in import Page, see_other

_DECISIONS = {"take": take_tank, "keep": keep_tank}


def decide(page: Page, by: Actor) -> Response:
    vehicle_id = read_id("veh", page.form.packed("id"))
    decide_so = _DECISIONS.get(page.form.text("decision"))
    if vehicle_id is None or decide_so is None:
        raise not_found()
    try:
        decide_so(page.connection, page.company_id, vehicle_id, _gallons(page), by)
    except NoSuchProposal as error:
        raise Refused(409, "This tank is not proposed any more", sentence(str(error))) from None
    return see_other(f"/vehicles/one?id={shown_id('veh', vehicle_id)}&done=changed")


def _gallons(page: Page) -> float:
    try:
        return float(page.form.text("gallons"))
    except ValueError:
        raise not_found() from None


ADDRESSES = [action_at("/vehicles/tank", decide, by=MAY_EDIT_FLEET)]
