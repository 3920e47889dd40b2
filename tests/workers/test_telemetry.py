"""The lines of the log within a job."""

import contextvars
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from dramatiq import Message
from dramatiq.brokers.stub import StubBroker

from domain.telemetry.log_lines import json_formatter
from workers.telemetry import JobTelemetry


def named_job() -> str | None:
    """The job that a line of a library would name now."""
    record = logging.LogRecord("tests", logging.INFO, __file__, 1, "something", None, None)
    job: str | None = json.loads(json_formatter("workers").format(record)).get("job")
    return job


_ENDS: dict[str, Callable[[JobTelemetry, StubBroker, Message[Any]], None]] = {
    "it is done": lambda telemetry, broker, message: telemetry.after_process_message(broker, message),
    "it is skipped": lambda telemetry, broker, message: telemetry.after_skip_message(broker, message),
}


@pytest.mark.parametrize("end", _ENDS)
def test_the_lines_of_a_job_name_it_until(end: str) -> None:
    def run() -> None:
        telemetry, broker = JobTelemetry(), StubBroker()
        message: Message[Any] = Message("plans", "plans.build", (), {}, {})
        telemetry.before_process_message(broker, message)
        assert named_job() == "plans.build"
        _ENDS[end](telemetry, broker, message)
        assert named_job() is None

    contextvars.Context().run(run)
