"""The pages Queues, for operators: what is wrong now, the rows behind each number, dead letters, pauses. To others
these addresses do not exist."""

from typing import Literal, get_args
from uuid import UUID

from starlette.responses import Response

from domain.ids import Kind, read_id
from domain.jobs import QUEUES
from domain.lifecycle import Role
from domain.operations import audit, dead_letters, measuring, overdue, pauses, queues
from domain.operations.audit import Actor
from domain.operations.dead_letters import Filter
from domain.operations.needs import find_needs, headline, is_silent, shown_count
from domain.operations.overdue import FIGURES, Figure
from domain.operations.queues import Place
from ingress.console.frame import Page, Refused, not_found, see_other
from ingress.console.rendering import counted

FIGURE_NAMES: dict[Figure, str] = {
    "pending": "Waiting too long for their import",
    "unplanned": "Arrived, not planned",
    "unsent": "Planned, not sent",
    "failed-messages": "Failed messages, 24 hours",
    "silent-trucks": "Silent trucks on a route",
    "held": "Held past their start",
    "stale-prices": "Stale prices",
}
_ROWS = 200
_ENTRIES = 20


def show(page: Page) -> Response:
    """The whole page, or the part that updates itself."""
    _for_operators(page)
    seen = measuring.measure(page.connection, page.console.jobs.client, now=page.now)
    needs = find_needs(seen, now=page.now)
    return page.render(
        "_queues.html" if page.is_fragment else "queues.html",
        section="queues",
        seen=seen,
        needs=needs,
        headline=headline(needs),
        held=overdue.held_by_reason(page.connection, now=page.now),
        paused={pause.queue: pause for pause in seen.pauses},
        figure_names=FIGURE_NAMES,
        shown_count=shown_count,
        is_silent=lambda worker: is_silent(worker, page.now),
        entries=audit.latest(page.connection, limit=_ENTRIES),
        queues=QUEUES,
        done=page.form.text("done"),
    )


def show_jobs(page: Page) -> Response:
    """The jobs of a queue that wait, are in flight, or are delayed."""
    _for_operators(page)
    queue, place = page.request.path_params["queue"], page.request.path_params["place"]
    if queue not in QUEUES or place not in get_args(Place):
        raise not_found()
    jobs = queues.jobs_in(page.console.jobs.client, queue, place, limit=_ROWS)
    return page.render("queue_jobs.html", section="queues", queue=queue, place=place, jobs=jobs, most=_ROWS)


def show_overdue(page: Page) -> Response:
    """The rows behind a figure."""
    _for_operators(page)
    figure = next((one for one in FIGURES if one == page.request.path_params["figure"]), None)
    if figure is None:
        raise not_found()
    rows = overdue.rows(page.connection, figure, limit=_ROWS, now=page.now)
    return page.render(
        "overdue.html",
        section="queues",
        title=FIGURE_NAMES[figure],
        rows=[(overdue.shown_row_id(figure, row), row) for row in rows],
        most=_ROWS,
    )


def show_dead(page: Page) -> Response:
    _for_operators(page)
    return _dead(page)


def _dead(page: Page, *, fault: str = "", status: int = 200) -> Response:
    wanted = _filter(page)
    letters = dead_letters.find(page.connection, page.console.jobs.client, wanted)
    return page.render(
        "dead_letters.html",
        status=status,
        section="queues",
        letters=letters[:_ROWS],
        total=len(letters),
        most=_ROWS,
        queues=QUEUES,
        form=page.form,
        is_filtered=wanted != Filter(),
        done=_taken(page),
        fault=fault,
    )


def act_on_dead(page: Page) -> Response:
    """Replays or discards the letters that match, if there are as many as the person was shown."""
    act = {"replay": dead_letters.replay, "discard": dead_letters.discard}.get(page.form.text("act"))
    if act is None:
        raise not_found()
    wanted = _filter(page)
    letters = dead_letters.find(page.connection, page.console.jobs.client, wanted)
    if len(letters) != page.form.number("count"):
        return _dead(page, fault=f"There are {len(letters)} of them now: look at them, then say it again.", status=409)
    taken = act(page.connection, page.console.jobs.client, letters, wanted, _actor(page), page.now)
    return see_other(f"/queues/dead?{page.form.text('act')}={taken}")


def _taken(page: Page) -> str:
    """What the form before did."""
    for act, what in (("replay", "replayed"), ("discard", "discarded")):
        if page.form.text(act):
            return f"{counted(page.form.number(act), 'dead letter')} {what}."
    return ""


def pause(page: Page) -> Response:
    changed = pauses.pause(page.connection, page.form.text("queue"), _actor(page), now=page.now)
    return see_other(f"/queues?done={'paused' if changed else 'paused-before'}")


def resume(page: Page) -> Response:
    changed = pauses.resume(page.connection, page.form.text("queue"), _actor(page), now=page.now)
    return see_other(f"/queues?done={'resumed' if changed else 'not-paused'}")


def _for_operators(page: Page) -> None:
    """Raises Refused."""
    if page.session.role is not Role.OPERATOR:
        raise not_found()


def _actor(page: Page) -> Actor:
    return Actor(page.session.email, page.form.text("reason", most=audit.LONGEST_REASON))


def _filter(page: Page) -> Filter:
    """Raises Refused."""

    def text(name: str) -> str | None:
        return page.form.text(name) or None

    return Filter(
        queue=text("queue"),
        job=text("job"),
        error=text("error"),
        company_id=_id(page, "company", "cmp"),
        route_id=_id(page, "route", "rte"),
        id=text("id"),
    )


def _id(page: Page, name: Literal["company", "route"], kind: Kind) -> UUID | None:
    text = page.form.text(name)
    found = read_id(kind, text)
    if text and found is None:
        raise Refused(400, f"This is no {name}'s id", f"It looks like {kind}_ and 32 digits. Go back and correct it.")
    return found
