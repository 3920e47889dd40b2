"""The trace of a push: which headers are believed, and what is bound, passed on and forgotten."""

import contextvars
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.telemetry import tracing
from domain.telemetry.log_lines import json_formatter
from domain.telemetry.tracing import Trace, outgoing_headers, read_traceparent

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE_ID}-{PARENT_ID}-01"


@pytest.mark.parametrize(
    ("header", "read"),
    [
        (GOOD, GOOD),
        (f"00-{TRACE_ID}-{PARENT_ID}-00", f"00-{TRACE_ID}-{PARENT_ID}-00"),
        (f"00-{TRACE_ID}-{PARENT_ID}-ff", f"00-{TRACE_ID}-{PARENT_ID}-03"),  # flags that nobody knows yet
        (f"cc-{TRACE_ID}-{PARENT_ID}-01-what-comes-later", GOOD),  # a later version: its known part counts
        (f"cc-{TRACE_ID}-{PARENT_ID}-01", GOOD),
    ],
)
def test_a_good_header_is_read(header: str, read: str) -> None:
    assert read_traceparent(header) == read


@pytest.mark.parametrize(
    "header",
    [
        "",
        GOOD.upper(),
        f" {GOOD}",
        f"{GOOD}\n",
        f"{GOOD}-more",
        f"ff-{TRACE_ID}-{PARENT_ID}-01",
        f"cc-{TRACE_ID}-{PARENT_ID}-01.more",
        f"00-{'0' * 32}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"00-{TRACE_ID[1:]}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{PARENT_ID}",
        f"00-{TRACE_ID}-{PARENT_ID}-0\u0661",
        f"cc-{TRACE_ID}-{PARENT_ID}-01-{'x' * 300}",
    ],
)
def test_a_header_that_breaks_the_rules_is_ignored(header: str) -> None:
    assert read_traceparent(header) is None


@given(st.text(alphabet="0123456789abcdef-f\u00e9\n G", max_size=80))
def test_whatever_is_read_can_be_read_again(header: str) -> None:
    read = read_traceparent(header)
    assert read is None or read_traceparent(read) == read


def in_a_thread_of_its_own(work: Any) -> None:
    contextvars.Context().run(work)


def named_in_the_log() -> dict[str, str]:
    """The parts of a line that name a trace."""
    record = logging.LogRecord("tests", logging.INFO, __file__, 1, "something", None, None)
    line = json.loads(json_formatter("tests").format(record))
    return {name: line[name] for name in ("request_id", "trace_id") if name in line}


def test_what_is_bound_is_in_the_log_and_passed_on_until_it_is_unbound() -> None:
    def work() -> None:
        tracing.bind(Trace("req-1", GOOD))
        assert named_in_the_log() == {"request_id": "req-1", "trace_id": TRACE_ID}
        assert outgoing_headers() == {"traceparent": GOOD}
        tracing.unbind()
        assert named_in_the_log() == {}
        assert outgoing_headers() == {}

    in_a_thread_of_its_own(work)


def test_a_push_without_a_trace_context_passes_none_on() -> None:
    def work() -> None:
        with tracing.working("job", "consumer", Trace("req-1", None)):
            assert named_in_the_log() == {"request_id": "req-1"}
            assert outgoing_headers() == {}

    in_a_thread_of_its_own(work)
