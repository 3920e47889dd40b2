"""The pages Queues, for operators: alerts, the rows behind each number, dead letters, pauses. For other users these
addresses do not exist."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from starlette.responses import Response

from domain.accounts.companies import names_of
from domain.accounts.users import MAY_OPERATE
from domain.audit.entries import Actor, latest_actions
from domain.ids import IdKind, read_id, shown_id
from domain.needs import overdue
from domain.needs.figures import FIGURES
from domain.needs.overdue import HeldCount
from domain.operations import dead_letters, measurements, pauses
from domain.operations.alerts import Measured, find_alerts, headline, is_silent, shown_count
from domain.operations.dead_letters import DeadLetter, Filter
from domain.operations.job_routes import JobRoutes, routes_of_jobs
from domain.queue import inspection
from domain.queue.dramatiq_messages import StoredJob
from domain.queue.heartbeats import read_worker_heartbeats
from domain.queue.inspection import Place
from domain.queue.jobs import QUEUES
from domain.queue.rates import CHARTED_MINUTES, WINDOWS, read_rates, shown_rate
from domain.wording import counted
from ingress.console.addresses import action_at, page_at, stream_at
from ingress.console.charts import draw_chart
from ingress.console.refusals import FormFault, Refused, known, not_found
from ingress.console.rendering import REASON_WORDS
from ingress.console.signed_in import Page, see_other, typed_moment
from ingress.console.streams import TimedCache

_ROWS = 200
_ENTRIES = 20
_GROUPS = 6
_ERROR_GROUP = 120


class QueueFigures(NamedTuple):
    """Figures that are measured once for all open pages."""

    at: datetime
    measured: Measured
    held: Sequence[HeldCount]


_seen: TimedCache[QueueFigures] = TimedCache(seconds=1)


def show(page: Page) -> Response:
    """Show the whole page. Its figures are measured again, because the operator may just have changed them."""
    return _figures(
        page,
        "queues.html",
        _measure(page),
        section="queues",
        entries=latest_actions(page.connection, limit=_ENTRIES),
        queues=QUEUES,
        done=page.form.text("done"),
    )


def figures(page: Page) -> Response:
    """Show the part of the page that updates itself."""
    try:
        seen = _seen.get(lambda: _measure(page))
    except TimeoutError:
        raise Refused(503, "The figures take long to measure", "Try again shortly.") from None
    return _figures(page, "_queues.html", seen)


def _measure(page: Page) -> QueueFigures:
    measured = measurements.measure(page.connection, page.console.jobs.client, now=page.now)
    return QueueFigures(page.now, measured, overdue.held_by_reason(page.connection, now=page.now))


def _figures(page: Page, template: str, seen: QueueFigures, **more: Any) -> Response:
    measured = seen.measured
    alerts = find_alerts(measured, now=seen.at)
    return page.render(
        template,
        seen=measured,
        measured_at=seen.at,
        alerts=alerts,
        headline=headline(alerts),
        held=seen.held,
        paused={pause.queue: pause for pause in measured.pauses},
        charts=[(rates, draw_chart(rates.minutes)) for rates in measured.rates],
        windows=WINDOWS,
        shown_rate=shown_rate,
        figures=FIGURES,
        shown_count=shown_count,
        is_silent=lambda worker: is_silent(worker, seen.at),
        leader=max(measured.passes, key=lambda one: one.ended_at).leader if measured.passes else None,
        **more,
    )


def show_rates(page: Page) -> Response:
    """Show the minutes behind a queue's rates."""
    queue = _queue(page)
    rates = next(one for one in read_rates(page.console.jobs.client, now=page.now) if one.queue == queue)
    start = page.now.replace(second=0, microsecond=0)
    minutes = [(start - timedelta(minutes=age), one) for age, one in enumerate(reversed(rates.minutes))]
    return page.render(
        "queue_rates.html",
        section="queues",
        queue=queue,
        rates=rates,
        chart=draw_chart(rates.minutes),
        windows=WINDOWS,
        shown_rate=shown_rate,
        minutes=[(at, one) for at, one in minutes[:CHARTED_MINUTES] if any(one)],
    )


def show_jobs(page: Page) -> Response:
    """Show the waiting, running or delayed jobs of a queue."""
    queue, place = _queue(page), page.request.path_params["place"]
    if place not in get_args(Place):
        raise not_found()
    return _jobs(
        page,
        f"{queue}: {place.replace('-', ' ')}",
        inspection.jobs_in(page.console.jobs.client, queue, place, limit=_ROWS),
    )


def show_worker(page: Page) -> Response:
    """Show the jobs that a worker has taken and not finished."""
    client, id = page.console.jobs.client, page.request.path_params["id"]
    if id not in inspection.read_holders(client):
        raise not_found()
    name = next(
        (one.name for one in read_worker_heartbeats(client, now=page.now) if one.id == id),
        "without a heartbeat",
    )
    return _jobs(page, f"Jobs held by worker {name}", inspection.jobs_held_by(client, id, limit=_ROWS))


def _jobs(page: Page, title: str, jobs: Sequence[StoredJob]) -> Response:
    rows = list(zip(jobs, routes_of_jobs(page.connection, jobs), strict=True))
    return page.render(
        "queue_jobs.html",
        section="queues",
        title=title,
        jobs=rows,
        company_names=_names(page, (one for _, one in rows)),
        most=_ROWS,
    )


def _names(page: Page, jobs: Iterable[JobRoutes]) -> dict[UUID, str]:
    return names_of(page.connection, (id for one in jobs for id in one.company_ids))


def _queue(page: Page) -> str:
    """The queue in the address. Raises Refused if there is none of that name."""
    queue: str = page.request.path_params["queue"]
    if queue not in QUEUES:
        raise not_found()
    return queue


def show_overdue(page: Page) -> Response:
    """Show the rows behind a figure. Held routes can be limited to one reason."""
    figure = known(FIGURES.get(page.request.path_params["figure"]))
    reason = page.form.text("reason")
    rows = overdue.rows(page.connection, figure.name, limit=_ROWS, now=page.now, detail=reason or None)
    return page.render(
        "overdue.html",
        section="queues",
        title=figure.title + (f": {REASON_WORDS.get(reason, reason)}" if reason else ""),
        rows=[(overdue.shown_row_id(figure.name, row), row) for row in rows],
        company_names=names_of(page.connection, (row.company_id for row in rows if row.company_id is not None)),
        is_of_routes=figure.of == "rte",
        details_are_reasons=figure.name == "held",
        most=_ROWS,
    )


def show_dead(page: Page, *, fault: str = "", status: int = 200) -> Response:
    wanted = _filter(page)
    letters = dead_letters.find(page.connection, page.console.jobs.client, wanted)
    return page.render(
        "dead_letters.html",
        status=status,
        section="queues",
        letters=letters[:_ROWS],
        company_names=_names(page, (letter.about for letter in letters[:_ROWS])),
        total=len(letters),
        most=_ROWS,
        queues=QUEUES,
        form=page.form,
        is_filtered=wanted != Filter(),
        groups=_groups(page, letters) if len(letters) > 1 else {},
        done=_taken(page),
        fault=fault,
    )


def _groups(page: Page, letters: Sequence[DeadLetter]) -> dict[str, list[tuple[str, int, str]]]:
    """The most frequent values of each filter: the value, the number of its letters, and the address that shows them. A
    filter with one value for all letters is left out."""
    counted_by: dict[str, Counter[str]] = {
        "queue": Counter(one.stored.queue for one in letters),
        "job": Counter(one.stored.job for one in letters),
        "error": Counter(one.stored.error[:_ERROR_GROUP].strip() for one in letters),
        "company": Counter(shown_id("cmp", id) for one in letters for id in one.about.company_ids),
        "route": Counter(shown_id("rte", id) for one in letters for id in one.about.route_ids),
    }
    given = {name: page.form.text(name) for name in counted_by if page.form.text(name)}
    return {
        name: [
            (value, number, f"/queues/dead?{urlencode(given | {name: value})}")
            for value, number in counter.most_common(_GROUPS)
            if value and number > (1 if name == "route" else 0)
        ]
        for name, counter in counted_by.items()
        if name not in given and (len(counter) > 1 or name in ("company", "route"))
    }


def act_on_dead(page: Page, by: Actor) -> Response:
    """Replay or discard the letters that match and that the person could see. Later ones wait for another look."""
    act = known({"replay": dead_letters.replay, "discard": dead_letters.discard}.get(page.form.text("act")))
    wanted, seen_until = _filter(page), _seen_until(page)
    letters = [
        one for one in dead_letters.find(page.connection, page.console.jobs.client, wanted) if one.died_at <= seen_until
    ]
    if not letters:
        raise FormFault("somebody else has taken them by now", 409)
    taken = act(page.connection, page.console.jobs.client, letters, wanted, by)
    return see_other(f"/queues/dead?{page.form.text('act')}={taken}")


def _seen_until(page: Page) -> datetime:
    """The death of the newest letter that the page counted. Raises FormFault for a form that does not tell it."""
    try:
        return typed_moment(page.form.text("until"), ZoneInfo("UTC"), page.now)
    except (ValueError, OverflowError):
        raise FormFault("this page is too old: look at them, then try again", 409) from None


def _taken(page: Page) -> str:
    """The result of the last form, in words."""
    for act, what in (("replay", "replayed"), ("discard", "discarded")):
        if page.form.text(act):
            return f"{counted(page.form.number(act), 'dead letter')} {what}."
    return ""


def pause(page: Page, by: Actor) -> Response:
    changed = pauses.pause(page.connection, page.form.text("queue"), by, now=page.now)
    return see_other(f"/queues?done={'paused' if changed else 'paused-before'}")


def resume(page: Page, by: Actor) -> Response:
    changed = pauses.resume(page.connection, page.form.text("queue"), by)
    return see_other(f"/queues?done={'resumed' if changed else 'not-paused'}")


def _filter(page: Page) -> Filter:
    """Read the filter from the form. Raises Refused for one that cannot be read."""

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


def _id(page: Page, name: Literal["company", "route"], kind: IdKind) -> UUID | None:
    text = page.form.text(name)
    found = read_id(kind, text)
    if text and found is None:
        raise Refused(400, f"This is no {name}'s id", f"It looks like {kind}_ and 32 digits. Go back and correct it.")
    return found


_page_at = partial(page_at, by=MAY_OPERATE)
_action_at = partial(action_at, by=MAY_OPERATE)
ADDRESSES = [
    _page_at("/queues", show),
    _page_at("/queues/dead", show_dead),
    _action_at("/queues/dead", act_on_dead, again=show_dead),
    _action_at("/queues/pause", pause),
    _action_at("/queues/resume", resume),
    stream_at("/queues/stream", figures, by=MAY_OPERATE),
    _page_at("/queues/overdue/{figure}", show_overdue),
    _page_at("/queues/workers/{id}", show_worker),
    _page_at("/queues/{queue}/rates", show_rates),
    _page_at("/queues/{queue}/{place}", show_jobs),
]
