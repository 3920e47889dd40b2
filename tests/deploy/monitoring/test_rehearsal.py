"""The rehearsal's own parts; `deploy/monitoring/rehearse` itself takes a quarter of an hour and is run by hand."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.monitoring.broken_stack import FASTER, shortened
from deploy.monitoring.faults import FAULTS, RESTORE
from deploy.monitoring.rehearsal import RUNBOOK, with_outputs
from tests.deploy.monitoring.names import RULES, alerts


@given(st.integers(1, 999), st.sampled_from("smh"))
def test_waits_and_windows_are_shorter_by_one_factor(number: int, unit: str) -> None:
    seconds = max(1, round(number * {"s": 1, "m": 60, "h": 3600}[unit] / FASTER))

    assert shortened(f"        for: {number}{unit}") == f"        for: {seconds}s"
    assert shortened(f"rate(x[{number}{unit}]) > 120") == f"rate(x[{seconds}s]) > 120"


def test_nothing_else_of_the_rules_is_changed() -> None:
    for path in RULES:
        text = path.read_text()
        pattern = r"(for: |\[)\d+[smh]"
        assert re.sub(pattern, "T", shortened(text)) == re.sub(pattern, "T", text)
        assert shortened(text) != text


def test_the_runbook_has_the_output_of_every_rehearsal() -> None:
    text = RUNBOOK.read_text()

    assert set(re.findall(r"^Rehearsed \d{4}-\d\d-\d\d, `([\w-]+)`:$", text, re.M)) == {*FAULTS, RESTORE}
    assert "to come" not in text
    fired = set(re.findall(r"^    \d\d:\d\d:\d\d fires:  (\w+)", text, re.M))
    ended = set(re.findall(r"^    \d\d:\d\d:\d\d ends:   (\w+)", text, re.M))
    assert fired == ended
    assert fired <= {str(alert["alert"]) for alert in alerts()}
    assert len(fired) == len(FAULTS) + 1, "each rehearsal has an alert of its own"


def test_an_output_takes_the_place_of_the_one_before() -> None:
    text = "a\n\nRehearsed 2020-01-01, `x`:\n\n    old\n    older\n\nb\n\nRehearsed 2020-01-01, `y`:\n\n    kept\n"

    written = with_outputs(text, {"x": ["new"]})

    assert re.sub(r"\d{4}-\d\d-\d\d", "D", written) == (
        "a\n\nRehearsed D, `x`:\n\n    new\n\nb\n\nRehearsed D, `y`:\n\n    kept\n"
    )
    with pytest.raises(SystemExit, match="no line for the rehearsal of z"):
        with_outputs(text, {"z": ["new"]})
