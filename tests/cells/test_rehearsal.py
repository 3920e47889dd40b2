"""A company moves under load: no push is lost, no message is doubled, and no client is told to give up."""

from pathlib import Path

import pytest

from tests.cells.rehearsal import rehearse
from tests.cells.test_haproxy import needs_haproxy

pytestmark = pytest.mark.servers


@needs_haproxy
def test_a_company_moves_under_load(tmp_path: Path) -> None:
    outcome = rehearse(tmp_path, seconds=9, per_second=8, trucks=12, durable=False)

    assert (outcome.lost, outcome.doubled, outcome.given_up) == (0, 0, 0), outcome
    assert outcome.messages > 0
    assert outcome.pause_seconds < 120
    assert set(outcome.statuses) <= {"0", "200", "201", "202", "429", "500"}, outcome
