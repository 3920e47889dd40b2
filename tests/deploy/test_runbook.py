"""Steps of the runbook in SQL are statements that PostgreSQL takes, with the ids that a person has."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.embedded.postgres import POSTGRES_MAJOR
from domain.ids import new_id, shown_id
from domain.settings import STACK_FILE, Settings

pytestmark = pytest.mark.servers

RUNBOOK = Path(__file__).parents[2] / "deploy" / "runbook.md"
STATEMENTS = re.findall(r"`((?:SELECT|SHOW|DELETE) [^`]+)`", re.sub(r"\s*\n\s*", " ", RUNBOOK.read_text()))
OF_OTHERS = ("pg_promote", "pg_reload_conf")
"""Statements of an administrator, for a PostgreSQL of one's own: the embedded one has no standby and no certificate."""


def commands() -> list[str]:
    """The lines that call the embedded server's `psql`."""
    lines = [line.strip() for line in RUNBOOK.read_text().splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("PSQL="))
    return lines[first : first + 2]


@pytest.mark.parametrize("statement", [one for one in STATEMENTS if not set(OF_OTHERS) & set(re.findall(r"\w+", one))])
def test_a_step_in_sql_runs_as_it_is_written(statement: str, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / ".fuelroute").mkdir()
    (tmp_path / ".fuelroute" / STACK_FILE).write_text(json.dumps({"database_url": settings.database_url}))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    route = shown_id("rte", new_id()).removeprefix("rte_")
    statement = statement.replace("PID", "0").replace("'...'", f"'{route}'")
    assert f"/pginstall{POSTGRES_MAJOR}/" in commands()[0]
    script = "\n".join([*commands()[:1], f'{commands()[1]} --set ON_ERROR_STOP=1 --command "$STATEMENT"'])

    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "STATEMENT": statement},
        capture_output=True,
    )

    assert (done.returncode, b"ERROR" in done.stderr) == (0, False), done.stderr


def test_the_runbook_says_which_part_of_a_shown_id_a_table_has() -> None:
    for statement in STATEMENTS:
        if "_id = '...'" in statement:
            text = re.sub(r"\s+", " ", RUNBOOK.read_text())
            assert f"`{statement}` with the id of the route behind its `rte_`" in text
