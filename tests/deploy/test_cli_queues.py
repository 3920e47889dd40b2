"""`fuelroute queues`: what is wrong, and the means to mend it."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from domain.ids import shown_id
from domain.needs.figures import FIGURES
from domain.queue.heartbeats import PassRun, record_pass_run
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES, build_plan_job, import_routes_job
from tests.deploy.commands import NO_COMPANY, Cli
from tests.dying import dead, kill


def test_the_first_line_shows_the_most_urgent_alert(cli: Cli, jobs: JobQueue) -> None:
    jobs.put(build_plan_job(uuid4()))

    said = cli("queues").out
    document = cli("queues", "--json").document

    assert said.splitlines()[0].startswith("Act now: No worker serves imports. Start one")
    assert document["headline"].startswith("Act now: No worker serves imports.")
    assert [(state["queue"], state["waiting"]) for state in document["queues"]] == [
        (queue, int(queue == "plans")) for queue in QUEUES
    ]
    assert set(document["overdue"]) == set(FIGURES)


def test_rates_and_passes_are_printed_as_the_console_shows_them(cli: Cli, jobs: JobQueue) -> None:
    jobs.put(*(build_plan_job(uuid4()) for _ in range(60)))
    now = datetime.now(UTC)
    for name, moved in (("sweep", {"plans": 3, "messages": 1_200}), ("import pass", {})):
        record_pass_run(jobs.client, PassRun(name, "alpha:8", now, 0.125, 10, failed=False, moved=moved))

    said = cli("queues").out
    document = cli("queues", "--json").document

    assert document["rates"]["plans"] | {"in_1": 0} == {
        **{"in_1": 0, "in_5": 12, "in_60": 1},
        **{f"{name}_{minutes}": 0 for name in ("out", "failed") for minutes in (1, 5, 60)},
    }
    assert 0 < document["rates"]["plans"]["in_1"] <= 60
    assert set(document["rates"]) == set(QUEUES)
    assert [one["name"] for one in document["passes"]] == ["import pass", "sweep"]
    assert [one["moved"] for one in document["runs"]] == [{"plans": 3, "messages": 1_200}]
    lines = [line.split() for line in said.splitlines()]
    assert "jobs a minute  in 1" in said
    assert next(line[2:4] for line in lines if line[:1] == ["plans"] and len(line) == 10) == ["12", "1.0"]
    assert "plans 3, messages 1200" in said


@pytest.mark.parametrize("figure", FIGURES)
def test_the_rows_behind_each_figure_are_listed(cli: Cli, jobs: JobQueue, figure: str) -> None:
    for row in cli("queues", "overdue", figure, "--json").document:
        assert row["id"].startswith("rte_") == (FIGURES[figure].of == "rte")
        assert set(row) == {"id", "about", "company_id", "since", "detail"}
    assert cli("queues", "overdue", figure).out.split()[:2] == ["id", "about"]


def test_the_companies_whose_jobs_wait_are_listed_by_the_length_of_their_backlogs(cli: Cli, jobs: JobQueue) -> None:
    short, long = uuid4(), uuid4()
    jobs.put(*(build_plan_job(uuid4(), company) for company, count in ((short, 40), (long, 90)) for _ in range(count)))

    first, second = cli("queues", "backlogs", "--json").document

    assert (first["company_id"], second["company_id"]) == (shown_id("cmp", long), shown_id("cmp", short))
    assert first["queue"] == "plans"
    assert 40 >= second["jobs"] > 0
    assert 90 >= first["jobs"] > second["jobs"]
    assert cli("queues", "backlogs", "--limit", "1", "--json").document == [first]
    assert cli("queues", "backlogs").out.split()[:4] == ["company", "id", "queue", "jobs"]


def test_dead_letters_are_counted_before_they_are_replayed_or_discarded(cli: Cli, jobs: JobQueue) -> None:
    route_id = uuid4()
    kill(jobs, build_plan_job(route_id), build_plan_job(uuid4()), import_routes_job([uuid4()]))

    listed = cli("queues", "dead", "--queue", "plans", "--error", "ROADS", "--json").document
    assert [letter["job"] for letter in listed] == ["plans.build", "plans.build"]
    assert "3 dead letters" in cli("queues", "dead").out
    assert cli("queues", "dead", "--route", shown_id("rte", route_id), "--json").document == [], "no such route"

    one = ("--id", listed[0]["id"], "--reason", "it is gone")
    assert "1 dead letter to discard: give --yes" in cli("queues", "discard", *one).sentence
    assert dead(jobs) == 3
    assert cli("queues", "discard", *one, "--yes", "--json").document == {"matched": 1, "discarded": 1}

    said = cli("queues", "replay", "--job", "plans.build", "--reason", "roads are back", "--yes").out
    assert "1 dead letter matched, 1 replayed" in said
    assert (dead(jobs), jobs.backlog("plans")) == (1, 1)
    entries = cli("queues", "log", "--limit", "2", "--json").document
    assert [(entry["action"], entry["subject"], entry["reason"]) for entry in entries] == [
        ("replay", "job=plans.build", "roads are back"),
        ("discard", f"id={listed[0]['id']}", "it is gone"),
    ]


def test_a_queue_is_paused_and_resumed(cli: Cli, jobs: JobQueue) -> None:
    assert "plans is paused" in cli("queues", "pause", "plans", "--reason", "wrong prices").out
    assert "was paused already" in cli("queues", "pause", "plans", "--reason", "again").out
    assert [one["queue"] for one in cli("queues", "--json").document["paused"]] == ["plans"]

    assert "plans is resumed" in cli("queues", "resume", "plans", "--reason", "new prices").out
    assert cli("queues", "resume", "plans", "--reason", "new prices", "--json").document["changed"] is False


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("pause", "plan", "--reason", "x"), "there is no queue 'plan'"),
        (("pause", "plans", "--reason", " "), "say why"),
        (("overdue", "nonsense"), "there is no figure 'nonsense'"),
        (("dead", "--queue", "plan"), "there is no queue 'plan'"),
        (("dead", "--route", "rte_1"), "is no route's id"),
    ],
)
def test_nonsense_is_refused(cli: Cli, jobs: JobQueue, arguments: tuple[str, ...], told: str) -> None:
    assert told in cli("queues", *arguments).sentence


def test_an_unknown_company_has_no_dead_letter(cli: Cli, jobs: JobQueue) -> None:
    assert cli("queues", "dead", "--company", NO_COMPANY, "--json").document == []
