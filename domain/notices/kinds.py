"""The kinds of needs that a notice can tell of, and their words. Those of a company are the ones of the console's page
Overview, those of the operators what the page Queues calls urgent."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

from domain.routes.reading.overview import NeedKind

NoticeKind = NeedKind | Literal["no_prices", "price_file_late"]


class NeedWords(NamedTuple):
    """The words of a need, and the page of the console on which a person mends it."""

    one: str
    """Follows the number 1."""
    several: str
    ended: str
    """The sentence that says that it is over."""
    label: str
    """Its name where people choose."""
    path: str


_ON_ITS_WAY = "/routes?status=active"

WORDS: Mapping[NoticeKind, NeedWords] = {
    "vehicle_unmapped": NeedWords(
        "route waits for a vehicle that the fleet does not know",
        "routes wait for vehicles that the fleet does not know",
        "No route waits for an unknown vehicle any more",
        "Routes wait for an unknown vehicle",
        "/matching/vehicles",
    ),
    "driver_unmapped": NeedWords(
        "route waits for a driver whom the fleet does not know",
        "routes wait for drivers whom the fleet does not know",
        "No route waits for an unknown driver any more",
        "Routes wait for an unknown driver",
        "/matching/drivers",
    ),
    "error": NeedWords(
        "route is in error",
        "routes are in error",
        "No route is in error any more",
        "Routes in error",
        "/routes?status=error",
    ),
    "low_fuel": NeedWords(
        "truck begins its plan low on fuel",
        "trucks begin their plans low on fuel",
        "No truck on its way began its plan low on fuel",
        "Trucks begin their plans low on fuel",
        _ON_ITS_WAY,
    ),
    "late": NeedWords(
        "truck is late at its next stop",
        "trucks are late at their next stops",
        "No truck is late at its next stop any more",
        "Trucks are late at their next stops",
        _ON_ITS_WAY,
    ),
    "off_road": NeedWords(
        "truck is off the road of its plan",
        "trucks are off the roads of their plans",
        "No truck is off the road of its plan any more",
        "Trucks are off the roads of their plans, where Policy gives them new ones",
        "/map?need=off_road",
    ),
    "silent": NeedWords(
        "truck on its way has sent no position for an hour",
        "trucks on their way have sent no position for an hour",
        "All trucks on their way send positions again",
        "Trucks on their way send no positions",
        _ON_ITS_WAY,
    ),
    "message_failed": NeedWords(
        "plan could not be sent to its driver",
        "plans could not be sent to their drivers",
        "No plan is left that could not be sent to its driver",
        "Plans could not be sent to their drivers",
        "/routes?status=planned",
    ),
    "no_prices": NeedWords(
        "", "", "Truck stops have fresh prices again", "No truck stop has a price of the last seven days", "/stations"
    ),
    "price_file_late": NeedWords("", "", "The price files come again", "A price file is late", "/prices"),
}
"""Each kind, in the order in which a dispatcher looks at them. The last two have no routes to count."""

NOTICE_KINDS: Sequence[NoticeKind] = tuple(WORDS)

UrgentKind = Literal[
    "redis_away",
    "unserved",
    "stalled",
    "foreign_worker",
    "worker_silent",
    "worker_stuck",
    "pass_late",
    "imports_late",
    "plans_late",
    "messages_late",
    "messages_withheld",
    "webhooks_late",
    "connectors_unpolled",
]
"""The urgent alerts of the page Queues, by the rule that finds it; see `operations/alerts.py`."""

OPERATORS = UUID(int=0)
"""The owner of subscriptions and notices of the operators, in place of a company: no company has this id."""


def _urgent(label: str, ended: str, path: str = "/queues") -> NeedWords:
    return NeedWords("", "", ended, label, path)


URGENT_WORDS: Mapping[UrgentKind, NeedWords] = {
    "redis_away": _urgent("Redis does not answer", "Redis answers again"),
    "unserved": _urgent("No worker serves a queue", "Each queue has a worker again"),
    "stalled": _urgent("A queue has stopped moving", "The queues move again"),
    "foreign_worker": _urgent(
        "A worker of another service takes our jobs", "No foreign worker takes our jobs any more"
    ),
    "worker_silent": _urgent("A worker is silent and holds jobs", "No silent worker holds jobs any more"),
    "worker_stuck": _urgent("A worker ends none of its jobs", "The workers end their jobs again"),
    "pass_late": _urgent("A pass of the scheduler does not end", "The passes of the scheduler run again"),
    "imports_late": _urgent(
        "Routes wait too long for their import", "No route waits too long for its import", "/queues/overdue/pending"
    ),
    "plans_late": _urgent(
        "Trucks have arrived and have no plan", "No truck waits too long for its plan", "/queues/overdue/unplanned"
    ),
    "messages_late": _urgent(
        "Plans were not sent to their drivers", "No plan waits too long to be sent", "/queues/overdue/unsent"
    ),
    "messages_withheld": _urgent(
        "Messages are withheld after a restore", "No message is withheld any more", "/queues/overdue/withheld-messages"
    ),
    "webhooks_late": _urgent(
        "Webhook endpoints wait too long for their events",
        "No endpoint waits too long for its events",
        "/queues/overdue/waiting-webhooks",
    ),
    "connectors_unpolled": _urgent(
        "No process asks vendors of telematics for positions",
        "The vendors of telematics are asked again",
        "/queues/overdue/unpolled-connectors",
    ),
}


def words_of(owner_id: UUID) -> Mapping[str, NeedWords]:
    """The kinds of needs that the owner of a subscription can be told of: a company, or the OPERATORS."""
    return dict(URGENT_WORDS.items() if owner_id == OPERATORS else WORDS.items())
