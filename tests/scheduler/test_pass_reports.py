"""A real scheduler leaves word of its passes: who leads, how long each took, what it moved, and that it has stopped."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.database.connections import Database
from domain.operations import alerts
from domain.operations.alerts import find_alerts
from domain.operations.measurements import measure
from domain.queue import heartbeats
from domain.queue.heartbeats import PassRun
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from tests.conftest import make_database
from tests.domain.helpers import pushed
from tests.factories import make_fleet
from tests.service import eventually, running_service


def test_passes_report_what_they_moved_and_an_alert_says_when_they_stop(
    settings: Settings, jobs: JobQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "SLOWEST_PASS", timedelta(seconds=4))
    own = settings.model_copy(update={"database_url": make_database("word")})

    def told(database: Database) -> list[str]:
        now = datetime.now(UTC)
        with database.transaction() as connection:
            seen = measure(connection, jobs.client, now=now)
        return [need.what for need in find_alerts(seen, now=now) if "scheduler" in need.what]

    with Database.of(own) as database:
        assert told(database) == ["No scheduler has run a pass"]
        with database.transaction() as connection:
            now = datetime.now(UTC)
            fleet = make_fleet(connection)
            for _ in range(3):
                route_id = pushed(connection, fleet.live, now=now, start=now)
                connection.execute("UPDATE routes SET retry_at = %s WHERE id = %s", (now, route_id))
        of_the_release_before = PassRun("forecasts", "alpha:8", now - timedelta(hours=1), 0.1, 60, failed=False)
        heartbeats.record_pass_run(jobs.client, of_the_release_before)
        assert told(database) == ["The scheduler's forecasts has not ended for 60 min"]

        with running_service(own, tmp_path, processes=("scheduler",), SWEEP_SECONDS="0.5", IMPORT_PASS_SECONDS="0.5"):
            runs = eventually(
                lambda: heartbeats.read_recent_pass_runs(jobs.client),
                lambda found: any(one.moved.get("imports") == 3 for one in found),
            )
            assert all(one.moved for one in runs), "runs that found nothing are left out"
            passes = eventually(lambda: heartbeats.read_last_pass_runs(jobs.client), lambda found: len(found) == 15)
            assert {one.name for one in passes} == {
                "autodrive",
                "burn",
                "detention",
                "driven roads",
                "filings",
                "fuel stops",
                "habits",
                "housekeeping",
                "import pass",
                "notices",
                "read status",
                "operator notices",
                "price sources",
                "statements",
                "sweep",
            }
            assert len({one.leader for one in passes}) == 1
            assert all(0 <= one.seconds < 180 and not one.failed for one in passes)
            assert told(database) == []

        found = eventually(lambda: told(database), lambda whats: len(whats) == 2)
        assert {what.partition(" has not ended")[0] for what in found} == {
            "The scheduler's import pass",
            "The scheduler's sweep",
        }
