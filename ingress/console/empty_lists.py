"""The words of each empty list: what fills it, and the step of a person who may take one. The macro `nothing_yet` shows
them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from domain.accounts.users import (
    EVERYBODY,
    MAY_EDIT_FLEET,
    MAY_EDIT_POLICY,
    MAY_EDIT_STATIONS,
    MAY_MANAGE_CONNECTORS,
    MAY_MANAGE_KEYS,
    MAY_MANAGE_USERS,
    MAY_MANAGE_WEBHOOKS,
    MAY_MATCH,
    MAY_OPERATE,
    MAY_SEE_REQUESTS,
)
from domain.lifecycle import Role


class EmptyList(NamedTuple):
    """The words of one list. `{environment}` and `{quarter}` in them are those that the page shows."""

    page: str
    """The address of the page."""
    filled_by: str
    step: str
    """The words that lead to the step."""
    at: str
    """The page of the step, or the form on the same page."""
    by: Collection[Role] = EVERYBODY
    otherwise: str = ""
    """Shown to people who may not take the step."""


_OWNER = "An owner of your company does that."
_DISPATCHER = "A dispatcher or an owner of your company does that."
_OPERATOR = "An operator imports them for all companies."

EMPTY_LISTS: Mapping[str, EmptyList] = {
    "map": EmptyList(
        "/map",
        "There is no truck yet. The map shows the vehicles of your fleet where their positions say.",
        "Add vehicles",
        "/vehicles",
    ),
    "routes": EmptyList(
        "/routes",
        "There is no {environment} route yet. A TMS pushes them with an API key, or a person as a file.",
        "Push a file of routes",
        "/route-files",
        MAY_MATCH,
        _DISPATCHER,
    ),
    "matching vehicles": EmptyList(
        "/matching/vehicles",
        "No route waits for a vehicle. A route waits here if its TMS names a vehicle that your fleet does not know.",
        "Look at the mappings",
        "/mappings/vehicles",
    ),
    "matching drivers": EmptyList(
        "/matching/drivers",
        "No route waits for a driver. A route waits here if its TMS names a driver whom your fleet does not know.",
        "Look at the mappings",
        "/mappings/drivers",
    ),
    "mappings of vehicles": EmptyList(
        "/mappings/vehicles",
        "There is no mapping yet. Each decision of the page Matching is kept here.",
        "Match vehicles",
        "/matching/vehicles",
    ),
    "mappings of drivers": EmptyList(
        "/mappings/drivers",
        "There is no mapping yet. Each decision of the page Matching is kept here.",
        "Match drivers",
        "/matching/drivers",
    ),
    "spelling rules": EmptyList(
        "/mappings/vehicles/rules",
        "There is no spelling rule yet. One says what your TMS writes around every unit number, such as TRK.",
        "Add a rule",
        "#add",
        MAY_MATCH,
        _DISPATCHER,
    ),
    "vehicles": EmptyList(
        "/vehicles",
        "There is no vehicle yet. Routes are matched to them by their numbers. Import a CSV file, or start with one.",
        "Add a vehicle",
        "/vehicles/new",
        MAY_EDIT_FLEET,
        _DISPATCHER,
    ),
    "drivers": EmptyList(
        "/drivers",
        "There is no driver yet. Each plan goes to the driver of its route. Import a CSV file, or start with one.",
        "Add a driver",
        "/drivers/new",
        MAY_EDIT_FLEET,
        _DISPATCHER,
    ),
    "stations": EmptyList(
        "/stations",
        "There is no station yet. Files of stations and of prices bring them; all companies share them.",
        "Add a station",
        "/stations/new",
        MAY_EDIT_STATIONS,
        _OPERATOR,
    ),
    "deals": EmptyList(
        "/deals",
        "There is no deal yet. Without one a plan takes retail prices, and the net prices of price files.",
        "Add a deal",
        "/deals/new",
        MAY_EDIT_POLICY,
        _OWNER,
    ),
    "taxes": EmptyList(
        "/taxes",
        "There is no tax yet. Without them plans compare pump prices, and IFTA shows no tax.",
        "Add a tax",
        "/taxes/new",
        MAY_EDIT_STATIONS,
        _OPERATOR,
    ),
    "held prices": EmptyList(
        "/prices",
        "No price is held. A price that looks wrong in a file waits here for your decision.",
        "Send a price file",
        "#price-file",
        MAY_EDIT_POLICY,
        _OWNER,
    ),
    "price files": EmptyList(
        "/prices",
        "No file has come yet. Each price file is listed here with what it changed.",
        "Send a price file",
        "#price-file",
        MAY_EDIT_POLICY,
        _OWNER,
    ),
    "savings": EmptyList(
        "/savings",
        "No {environment} plan counts in these days. A plan counts once its driver has it, on the day of its making.",
        "Look at routes that wait for a plan",
        "/routes?environment={environment}&status=draft",
    ),
    "statements": EmptyList(
        "/savings/statements",
        "No statement was made yet. A month has one once a driver had a plan in it and its day has come.",
        "Look at the savings so far",
        "/savings",
    ),
    "driven lanes": EmptyList(
        "/savings/lanes",
        "No trip has been read yet. A route is read some minutes after its truck has reached the last stop.",
        "Look at the routes",
        "/routes?environment={environment}",
    ),
    "plans": EmptyList(
        "/savings/plans",
        "No plan counts here in these days. A plan counts once its driver has it.",
        "Look at routes that wait for a plan",
        "/routes?environment={environment}&status=draft",
    ),
    "replays": EmptyList(
        "/replays",
        "No replay was asked for yet. One solves the driven trips of some months again under other terms.",
        "Ask what a deal is worth",
        "#ask",
        MAY_EDIT_POLICY,
        "An owner of your company asks for one.",
    ),
    "ifta": EmptyList(
        "/ifta",
        "No leg was driven in {quarter}. A leg counts when its truck reaches its end.",
        "Look at routes on their way",
        "/routes?status=active",
    ),
    "fills": EmptyList(
        "/fills",
        "There are no {environment} fills yet. They come from the file of transactions of your fuel card's portal.",
        "Import a card's file",
        "/fill-files",
        MAY_MATCH,
        _DISPATCHER,
    ),
    "fills to review": EmptyList(
        "/fills?list=review",
        "Nothing waits for a person. A fill does if its truck, station or route is not certain.",
        "Show all fills",
        "/fills?environment={environment}",
    ),
    "flagged fills": EmptyList(
        "/fills?list=flagged",
        "No fill is flagged: none is larger than its tank or far from its truck.",
        "Show all fills",
        "/fills?environment={environment}",
    ),
    "cards": EmptyList(
        "/fills/cards",
        "No fill waits for its card. One does if its file names the card alone, without a unit.",
        "Import a card's file",
        "/fill-files",
        MAY_MATCH,
        _DISPATCHER,
    ),
    "bought": EmptyList(
        "/bought",
        "No {environment} route with fills has a plan in these days. A route counts once a card's file tells of its"
        " fuel and nothing of it waits for a decision.",
        "Look at the fills",
        "/fills?environment={environment}",
    ),
    "compliance": EmptyList(
        "/compliance",
        "No {environment} route that ended in these days had a fuel stop. A stop counts once its trip has ended, or at"
        " once where the driver refuses it.",
        "Look at the routes",
        "/routes?environment={environment}",
    ),
    "keys": EmptyList(
        "/keys",
        "There is no valid key. Your TMS, or your provider of telematics, signs in with one.",
        "Create a key",
        "#add",
        MAY_MANAGE_KEYS,
        _OWNER,
    ),
    "connectors": EmptyList(
        "/connectors",
        "There is no connector. One brings the positions of your trucks, without which no plan is made.",
        "Add a connector",
        "#add",
        MAY_MANAGE_CONNECTORS,
        _OWNER,
    ),
    "webhooks": EmptyList(
        "/webhooks",
        "There is no endpoint. Each change of a route is sent to your endpoints.",
        "Add an endpoint",
        "#add",
        MAY_MANAGE_WEBHOOKS,
        _OWNER,
    ),
    "subscriptions": EmptyList(
        "/notices",
        "Nobody is told yet. A subscription tells people by mail, chat or a call when something needs them.",
        "Add a subscription",
        "#add",
    ),
    "notices": EmptyList(
        "/notices",
        "Nothing has been sent yet. Each notice to a subscription is listed here.",
        "Look at what needs a person now",
        "/overview",
    ),
    "users": EmptyList(
        "/users",
        "Nobody of this company can sign in yet.",
        "Invite the first owner",
        "#add",
        MAY_MANAGE_USERS,
        _OWNER,
    ),
    "requests": EmptyList(
        "/requests",
        "No key has sent a request lately. Each request is here a second or two after its answer.",
        "Make a key and try it",
        "/keys",
        MAY_SEE_REQUESTS,
    ),
    "audit": EmptyList(
        "/audit",
        "Nobody has changed anything yet. Each change by a person is listed here with its reason.",
        "Look at the policy",
        "/policy",
    ),
    "companies": EmptyList(
        "/companies",
        "There is no company yet: `fuelroute companies create --name NAME` makes one.",
        "Look at the queues",
        "/queues",
        MAY_OPERATE,
    ),
    "dead letters": EmptyList(
        "/queues/dead",
        "There is no dead letter: every job was done. A job that fails at every attempt is kept here for a week.",
        "Look at the queues",
        "/queues",
        MAY_OPERATE,
    ),
    "operators' subscriptions": EmptyList(
        "/operator-notices",
        "Nobody is told yet. A subscription tells operators of what the page Queues calls urgent.",
        "Add a subscription",
        "#add",
        MAY_OPERATE,
    ),
    "operators' notices": EmptyList(
        "/operator-notices",
        "Nothing has been sent yet. Each notice to a subscription is listed here.",
        "Look at the queues",
        "/queues",
        MAY_OPERATE,
    ),
}
"""A new list gets a row. `tests/ingress/console/test_empty_lists.py` walks all pages of an empty company."""
