"""Commands for the person on call: they show the alerts, and act on queues and dead letters. The console's page Queues
shows the same."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, Limit, Yes, acting, confirm, known_id, read_company_id, with_options
from deploy.cli.failures import CommandFailed
from deploy.cli.output import plain, print_table, screen, show, show_sentence, show_table
from deploy.cli.storing import transaction
from domain import clock
from domain.ids import shown_id, with_shown_ids
from domain.queue.jobs import QUEUES
from domain.text import printable
from domain.wording import counted

if TYPE_CHECKING:
    from domain.operations.alerts import Measured
    from domain.operations.dead_letters import DeadLetter, Filter
    from domain.queue.heartbeats import PassRun

app = typer.Typer()

_LOCK_TIMEOUT = "5s"
"""A command waits for a minute, as those that change something should; here a person looks for what is wrong."""


def read_route_id(text: str) -> UUID:
    """The id in the text. Raises CommandFailed for text that is no route's id."""
    return known_id("rte", text, lambda text: CommandFailed(f"{text!r} is no route's id"))


QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help=f"One of {', '.join(QUEUES)}.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason; the audit log keeps it.")]
QueueOption = Annotated[str | None, typer.Option("--queue", metavar="QUEUE", help="Only dead letters of this queue.")]
JobOption = Annotated[
    str | None, typer.Option("--job", metavar="NAME", help="Only dead letters of this job, such as plans.build.")
]
ErrorOption = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only dead letters whose error contains this text.")
]
CompanyOption = Annotated[
    UUID | None,
    typer.Option("--company", parser=read_company_id, metavar="ID", help="Only dead letters about this company."),
]
RouteOption = Annotated[
    UUID | None, typer.Option("--route", parser=read_route_id, metavar="ID", help="Only dead letters about this route.")
]
LetterOption = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="Only this dead letter; `queues dead` shows its id.")
]


def _make_filter(**fields: Any) -> "Filter":
    from domain.operations.dead_letters import Filter  # loads Redis's library

    return Filter(**fields)


_with_filter = with_options(
    "wanted",
    {
        "queue": QueueOption,
        "job": JobOption,
        "error": ErrorOption,
        "company_id": CompanyOption,
        "route_id": RouteOption,
        "id": LetterOption,
    },
    _make_filter,
)
"""Options that choose dead letters."""


@app.callback(invoke_without_command=True)
def queues(context: typer.Context, as_json: AsJson = False) -> None:
    """Shows the state of the queues and workers, and overdue work. The first line is the most urgent alert, if there is
    one, with what to do about it."""
    if context.invoked_subcommand is not None:
        return
    from domain.database.visibility import set_locally
    from domain.needs import overdue
    from domain.operations import measurements
    from domain.queue.redis_clients import redis_client
    from domain.settings import get_settings

    now = clock.now()
    with transaction() as connection, redis_client(get_settings().require_redis_url()) as client:
        set_locally(connection, {"lock_timeout": _LOCK_TIMEOUT})
        seen = measurements.measure(connection, client, now=now)
        held = overdue.held_by_reason(connection, now=now)
    document = _document(seen, now) | {"held_by_reason": {one.reason: one.routes for one in held}}
    show(as_json, document, lambda: _print(document))


def _document(seen: "Measured", now: datetime) -> dict[str, Any]:
    from domain.operations.alerts import find_alerts, headline, is_silent

    needs = find_alerts(seen, now=now)
    return {
        "headline": headline(needs),
        "measured_at": now,
        "needs": [need._asdict() for need in needs],
        "queues": [state._asdict() for state in seen.queues] if seen.queues is not None else None,
        "rates": {one.queue: one.table() for one in seen.rates},
        "paused": [pause._asdict() for pause in seen.pauses],
        "workers": [{"name": one.name, "silent": is_silent(one, now), "beat": one} for one in seen.workers],
        "passes": list(seen.passes),
        "runs": list(seen.runs),
        "overdue": {figure: count._asdict() for figure, count in seen.overdue.items()},
    }


def _print(document: dict[str, Any]) -> None:
    from domain.operations.alerts import shown_count
    from domain.queue.rates import WINDOWS, shown_rate

    def say(text: str) -> None:
        screen.print(printable(text), highlight=False, soft_wrap=True)

    say(document["headline"])
    for need in document["needs"]:
        say(f"  {'!' if need['is_urgent'] else '-'} {need['what']}. {need['what_to_do']}.")
    if document["queues"] is not None:
        screen.print()
        print_table(
            [{name: plain(value) for name, value in state.items()} for state in document["queues"]],
            *("queue", "waiting", "in_flight", "delayed", "dead", "oldest_at", "last_finished_at"),
        )
        screen.print()
        print_table(
            [
                {"jobs a minute": queue, **{name: shown_rate(rate) for name, rate in table.items()}}
                for queue, table in document["rates"].items()
            ],
            *("jobs a minute", *(f"{name}_{minutes}" for name in ("in", "out", "failed") for minutes in WINDOWS)),
        )
        screen.print()
        print_table([_worker_row(one) for one in document["workers"]], "worker", "heartbeat", "queues", "holds", "runs")
        screen.print()
        print_table([_pass_row(one) for one in document["passes"]], "pass", "ended", "seconds", "moved", "leader")
    screen.print()
    rows = [
        {"overdue": figure, "rows": shown_count(found["rows"]), "since": plain(found["since"])}
        for figure, found in document["overdue"].items()
    ]
    print_table(rows, "overdue", "rows", "since")
    for reason, routes in document["held_by_reason"].items():
        say(f"  held past their start, {reason}: {shown_count(routes)}")


def _worker_row(one: dict[str, Any]) -> dict[str, str]:
    beat = one["beat"]
    return {
        "worker": beat.name,
        "heartbeat": f"{'silent since ' if one['silent'] else ''}{plain(beat.beat_at)}",
        "queues": ", ".join(beat.queues),
        "holds": str(beat.held),
        "runs": ", ".join(f"{running.job} since {plain(running.since)}" for running in beat.running),
    }


def _pass_row(one: "PassRun") -> dict[str, str]:
    return {
        "pass": one.name,
        "ended": f"{'failed ' if one.failed else ''}{plain(one.ended_at)}",
        "seconds": f"{one.seconds}",
        "moved": ", ".join(f"{what.replace('_', ' ')} {count}" for what, count in one.moved.items()) or "nothing",
        "leader": one.leader,
    }


@app.command("overdue")
def queues_overdue(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE", help="The name of what is overdue, as `fuelroute queues` shows it, such as unplanned."
        ),
    ],
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """Lists what is overdue one by one: routes without a plan, messages that wait, silent trucks and others."""
    from domain.needs import overdue
    from domain.needs.figures import FIGURES

    if figure not in FIGURES:
        raise CommandFailed(f"there is no figure {figure!r}; choose from {', '.join(FIGURES)}")
    with transaction() as connection:
        found = overdue.rows(connection, figure, limit=limit, now=clock.now())
    rows = [
        {
            "id": overdue.shown_row_id(figure, row),
            "about": row.about,
            "company_id": shown_id("cmp", row.company_id) if row.company_id is not None else None,
            "since": plain(row.since),
            "detail": row.detail,
        }
        for row in found
    ]
    show_table(as_json, rows, "id", "about", "company_id", "since", "detail")


@app.command("backlogs")
def queues_backlogs(
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Lists the companies whose jobs wait for their turn, those with the most jobs first."""
    from domain.queue.inspection import read_backlogs
    from domain.queue.redis_clients import redis_client
    from domain.settings import get_settings

    with redis_client(get_settings().require_redis_url()) as client:
        found = [one for queue in QUEUES for one in read_backlogs(client, queue) if one.jobs]
    longest = sorted(found, key=lambda one: -one.jobs)[:limit]
    rows = [{"company_id": shown_id("cmp", one.company_id), "queue": one.queue, "jobs": one.jobs} for one in longest]
    show_table(as_json, rows, "company_id", "queue", "jobs")


@app.command("dead")
@_with_filter
def queues_dead(wanted: "Filter", as_json: AsJson = False) -> None:
    """Lists dead letters: jobs that failed at every attempt, the newest first."""
    letters = _find(wanted)
    documents = [_letter_document(letter) for letter in letters]

    def text() -> None:
        print_table(documents, "id", "job", "died_at", "error", "company_ids", "route_ids")
        screen.print(counted(len(documents), "dead letter"))

    show(as_json, documents, text)


@app.command("replay")
@_with_filter
def queues_replay(wanted: "Filter", reason: Reason, yes: Yes = False, as_json: AsJson = False) -> None:
    """Enqueues again the dead letters that match; without any option all of them. First it says how many match."""
    _act("replay", wanted, reason, yes, as_json)


@app.command("discard")
@_with_filter
def queues_discard(wanted: "Filter", reason: Reason, yes: Yes = False, as_json: AsJson = False) -> None:
    """Removes the dead letters that match; without any option all of them. First it says how many match."""
    _act("discard", wanted, reason, yes, as_json)


@app.command("pause")
def queues_pause(queue: QueueArgument, reason: Reason, as_json: AsJson = False) -> None:
    """Pauses a queue: workers take no job from it after a few seconds. Running jobs are finished."""
    from domain.operations import pauses

    with transaction() as connection:
        changed = pauses.pause(connection, queue, acting(reason), now=clock.now())
    said = f"{queue} is paused" if changed else f"{queue} was paused already"
    show_sentence(as_json, {"queue": queue, "paused": True, "changed": changed}, said)


@app.command("resume")
def queues_resume(queue: QueueArgument, reason: Reason, as_json: AsJson = False) -> None:
    """Ends the pause of a queue."""
    from domain.operations import pauses

    with transaction() as connection:
        changed = pauses.resume(connection, queue, acting(reason))
    said = f"{queue} is resumed" if changed else f"{queue} was not paused"
    show_sentence(as_json, {"queue": queue, "paused": False, "changed": changed}, said)


@app.command("log")
def queues_log(
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Lists the actions on queues and dead letters, with the person and the reason; the newest first."""
    from domain.audit.entries import latest_actions

    with transaction() as connection:
        rows = [with_shown_ids(entry._asdict()) for entry in latest_actions(connection, limit=limit)]
    show_table(as_json, rows, "at", "actor", "action", "subject", "affected", "reason")


def _act(action: Literal["replay", "discard"], wanted: "Filter", reason: str, yes: bool, as_json: bool) -> None:
    from domain.operations import dead_letters
    from domain.queue.redis_clients import redis_client
    from domain.settings import get_settings

    letters = _find(wanted)
    act: Callable[..., int] = dead_letters.replay if action == "replay" else dead_letters.discard
    taken = 0
    if letters:
        confirm(yes, f"{counted(len(letters), 'dead letter')} to {action}")
        with transaction() as connection, redis_client(get_settings().require_redis_url()) as client:
            taken = act(connection, client, letters, wanted, acting(reason))
    done = "replayed" if action == "replay" else "discarded"
    show_sentence(
        as_json,
        {"matched": len(letters), done: taken},
        f"{counted(len(letters), 'dead letter')} matched, {taken} {done}",
    )


def _find(wanted: "Filter") -> "list[DeadLetter]":
    from domain.operations import dead_letters, pauses
    from domain.queue.redis_clients import redis_client
    from domain.settings import get_settings

    if wanted.queue is not None:
        pauses.require_queue(wanted.queue)
    with transaction() as connection, redis_client(get_settings().require_redis_url()) as client:
        return dead_letters.find(connection, client, wanted)


def _letter_document(letter: "DeadLetter") -> dict[str, Any]:
    return letter.stored._asdict() | {
        "died_at": plain(letter.died_at),
        "enqueued_at": plain(letter.stored.enqueued_at),
        "company_ids": [shown_id("cmp", one) for one in sorted(letter.about.company_ids)],
        "route_ids": [shown_id("rte", one) for one in sorted(letter.about.route_ids)],
    }
