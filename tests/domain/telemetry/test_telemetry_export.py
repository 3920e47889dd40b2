"""Spans and lines of the log as OpenTelemetry gets them, in memory: how they belong together, and that no secret is
among them."""

import contextvars
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from domain.telemetry import export, tracing
from domain.telemetry.export import LogExport, export_spans, export_telemetry
from domain.telemetry.tracing import Trace, outgoing_headers, trace_id_of

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEY = "svc_live_abcdefgh0123456789abcdefgh"


@pytest.fixture(autouse=True)
def _off_afterwards() -> Iterator[None]:
    handlers = list(logging.getLogger().handlers)
    level = logging.getLogger("opentelemetry").level
    yield
    tracing.spans = None
    logging.getLogger("opentelemetry").setLevel(level)
    logging.getLogger().handlers = handlers


@pytest.fixture
def spans() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    export_spans(provider)
    return exporter


def alone(work: Callable[[], None]) -> None:
    contextvars.Context().run(work)


def test_work_about_a_push_is_a_part_of_its_trace(spans: InMemorySpanExporter) -> None:
    def work() -> None:
        with tracing.working("plans.build", "consumer", Trace("req-1", TRACEPARENT), route_id="rte_1"):
            outer = outgoing_headers()["traceparent"]
            with tracing.working("POST /route", "client"):
                assert outgoing_headers()["traceparent"] not in (outer, TRACEPARENT)
            assert outgoing_headers()["traceparent"] == outer

    alone(work)
    call, job = spans.get_finished_spans()
    of_call, of_job = call.get_span_context(), job.get_span_context()
    assert of_call is not None
    assert of_job is not None
    assert (job.name, job.attributes) == ("plans.build", {"fuelroute.route_id": "rte_1"})
    assert job.parent is not None
    assert call.parent is not None
    assert f"{job.parent.span_id:016x}" == "b7ad6b7169203331"
    assert call.parent.span_id == of_job.span_id
    assert {f"{one.trace_id:032x}" for one in (of_call, of_job)} == {trace_id_of(TRACEPARENT)}


def test_a_batch_is_linked_to_the_traces_of_its_pushes(spans: InMemorySpanExporter) -> None:
    other = TRACEPARENT.replace("0af7", "1af7")
    tracing.record("imports.run", [Trace("a", TRACEPARENT), Trace("b", other), Trace("c", None)], seconds=0.5)
    (span,) = spans.get_finished_spans()
    assert span.parent is None
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [trace_id_of(TRACEPARENT), trace_id_of(other)]
    assert span.start_time is not None
    assert span.end_time is not None
    assert 0.4e9 < span.end_time - span.start_time < 120e9


def test_the_text_of_an_error_is_in_no_span(spans: InMemorySpanExporter) -> None:
    def work() -> None:
        with pytest.raises(RuntimeError), tracing.working("job", "consumer", Trace("r", TRACEPARENT)):
            raise RuntimeError(f"cannot use {KEY}")

    alone(work)
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "RuntimeError"
    assert KEY not in span.to_json()


def test_a_trace_that_is_not_sampled_is_passed_on_and_not_exported() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    export_spans(provider)

    def work() -> None:
        with tracing.working("job", "consumer", Trace("r", TRACEPARENT)):
            passed_on = outgoing_headers()["traceparent"]
            assert trace_id_of(passed_on) == trace_id_of(TRACEPARENT)
            assert passed_on.endswith("-00")

    alone(work)
    assert exporter.get_finished_spans() == ()


@pytest.fixture
def lines() -> Any:
    """Lines of the log, kept in memory."""
    exporter: Any = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the library's has no types
    return exporter


def exported(lines: Any) -> LogExport:
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(lines))
    return LogExport(provider, "test")


def test_lines_of_the_log_have_their_fields_and_their_trace_and_no_secret(lines: Any) -> None:
    handler = exported(lines)

    def work() -> None:
        tracing.bind(Trace("req-1", TRACEPARENT))
        fields = {"event": "plans.built", "detail": f"key {KEY}", "ids": [1, 2]}
        handler.emit(structlog_record("workers.plans", fields))

    alone(work)
    (line,) = [one.log_record for one in lines.get_finished_logs()]
    assert (line.body, line.severity_text) == ("plans.built", "WARNING")
    assert line.severity_number is not None
    assert line.severity_number.value == 13
    assert line.trace_id is not None
    assert f"{line.trace_id:032x}" == trace_id_of(TRACEPARENT)
    assert line.attributes is not None
    assert line.attributes["ids"] == "[1,2]"
    assert KEY not in str(line.attributes)


def structlog_record(name: str, fields: dict[str, Any]) -> logging.LogRecord:
    """The record that structlog hands to logging."""
    record = logging.LogRecord(name, logging.WARNING, "", 0, "", None, None)
    record.__dict__["msg"] = fields
    record.args = ()
    record.__dict__ |= {"_logger": logging.getLogger(name), "_name": "warning"}
    return record


def test_lines_of_the_export_itself_are_not_exported(lines: Any) -> None:
    exported(lines).emit(structlog_record("opentelemetry.sdk", {"event": "failed"}))
    assert lines.get_finished_logs() == ()


def test_a_variable_that_opentelemetry_cannot_read_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "hunter2")
    export_telemetry("test")
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, []),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, []),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, ["telemetry.unknown_exporter"]),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            ["telemetry.unknown_exporter"],
        ),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_MAX_QUEUE_SIZE": "-5"},
            ["telemetry.unusable"],
        ),
    ],
)
def test_what_is_not_wanted_or_cannot_be_used_is_left_out(
    environment: dict[str, str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(export, "log", structlog.get_logger())
    with structlog.testing.capture_logs() as said:
        export_telemetry("test")
    assert [line["event"] for line in said] == told

    assert tracing.spans is None
