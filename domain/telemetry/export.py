"""Traces and logs for an OpenTelemetry collector, by OTLP over HTTP. They need the extra `otel`, and are on where the
variables of OpenTelemetry ask for them, such as OTEL_EXPORTER_OTLP_ENDPOINT.

Nothing here is loaded otherwise. A collector that is away costs no request and holds up no stop of a process: what
cannot be sent in time is dropped.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from domain.encoding import write
from domain.telemetry import tracing
from domain.telemetry.log_lines import json_formatter
from domain.telemetry.logs import get_logger
from domain.telemetry.tracing import SpanKind

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, SpanContext

log = get_logger(__name__)

_STOP_SECONDS = 2.0
"""The time for the last spans and lines when the process stops."""

_shutdowns: list[Callable[[], object]] = []
"""The ends of what is exported."""

_OWN = ("opentelemetry", "urllib3", "requests")
"""Loggers of the export itself: each of their lines would make another one."""


def export_telemetry(process: str) -> None:
    """Turns the export on for this process, where it is asked for, until `end_export`. Settings that cannot be used are
    logged and left out."""
    signals = [signal for signal in ("traces", "logs") if _is_wanted(signal)]
    if not signals:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("telemetry.not_installed", hint="pip install 'fuelroute[otel]'")
        return
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # its warnings quote variables, headers with keys too
    try:
        resource = _resource(process)
        if "traces" in signals:
            tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            export_spans(tracer_provider)
            _shutdowns.append(tracer_provider.shutdown)
        if "logs" in signals:
            logger_provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
            logger_provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
            logging.getLogger().addHandler(LogExport(logger_provider, process))
            _shutdowns.append(logger_provider.shutdown)
    except Exception as error:  # a variable that OpenTelemetry cannot read: its value may be a secret
        log.warning("telemetry.unusable", error=type(error).__name__, hint="look at the variables OTEL_*")
        return
    log.info("telemetry.exported", signals=signals)


def _is_wanted(signal: str) -> bool:
    """True if the variables of OpenTelemetry ask for `traces` or `logs`, in the one protocol that there is."""
    name = signal.upper()

    def value(*variables: str) -> str:
        return next((os.environ[one].strip() for one in variables if os.environ.get(one, "").strip()), "")

    if value("OTEL_SDK_DISABLED").lower() == "true":
        return False
    has_endpoint = bool(value(f"OTEL_EXPORTER_OTLP_{name}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"))
    exporter = value(f"OTEL_{name}_EXPORTER") or ("otlp" if has_endpoint else "none")
    protocol = value(f"OTEL_EXPORTER_OTLP_{name}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if exporter == "none":
        return False
    if (exporter, protocol) != ("otlp", "http/protobuf"):
        log.warning("telemetry.unknown_exporter", signal=signal, hint="there is otlp, by http/protobuf")
        return False
    return True


def _resource(process: str) -> "Resource":
    from opentelemetry.sdk.resources import Resource

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own: dict[str, Any] = {"service.version": version("fuelroute"), "process.pid": os.getpid()}
    if not named:
        own["service.name"] = f"fuelroute-{process}"
    return Resource.create(own)


def end_export() -> None:
    """Sends the last lines and spans within the time that a stopping process has: the library would wait longer for a
    collector that is away."""
    while _shutdowns:
        ending = threading.Thread(target=_shutdowns.pop(), name="telemetry-end", daemon=True)
        ending.start()
        ending.join(_STOP_SECONDS)


# --- Spans ------------------------------------------------------------------------------------------------------


def export_spans(provider: "TracerProvider") -> None:
    """Makes spans in this process from now on."""
    tracing.spans = _ExportedSpans(provider)


class _ExportedSpans:
    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace import SpanKind as Kind

        self._tracer = provider.get_tracer("fuelroute", version("fuelroute"))
        self._kinds = {"server": Kind.SERVER, "client": Kind.CLIENT, "consumer": Kind.CONSUMER}

    def start(
        self,
        name: str,
        kind: SpanKind,
        *,
        parent: str | None,
        links: Iterable[str] = (),
        since_nanoseconds: int | None = None,
        attributes: Mapping[str, str | int] | None = None,
    ) -> "_ExportedSpan":
        from opentelemetry.trace import Link

        span = self._tracer.start_span(
            name,
            context=_context(parent),
            kind=self._kinds[kind],
            attributes=_named(attributes),
            links=[Link(_span_context(link)) for link in links],
            start_time=since_nanoseconds,
        )
        return _ExportedSpan(span)


class _ExportedSpan:
    def __init__(self, span: "Span") -> None:
        self._span = span
        of_span = span.get_span_context()
        self.traceparent = f"00-{of_span.trace_id:032x}-{of_span.span_id:016x}-{int(of_span.trace_flags):02x}"

    def end(
        self,
        *,
        name: str | None = None,
        failed: str | None = None,
        attributes: Mapping[str, str | int] | None = None,
    ) -> None:
        from opentelemetry.trace import StatusCode

        if name is not None:
            self._span.update_name(name)
        self._span.set_attributes(_named(attributes))
        if failed is not None:
            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute("error.type", failed)
        self._span.end()


def _named(attributes: Mapping[str, str | int] | None) -> dict[str, str | int]:
    """The attributes in our name space, unless they have one."""
    return {name if "." in name else f"fuelroute.{name}": value for name, value in (attributes or {}).items()}


def _span_context(traceparent: str) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _context(traceparent: str | None) -> "Context":
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    if traceparent is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(_span_context(traceparent)), Context())


# --- Logs -------------------------------------------------------------------------------------------------------


class LogExport(logging.Handler):
    """Exports each line of the log with the fields of the log, so that secrets are masked in the same way."""

    def __init__(self, provider: "LoggerProvider", process: str) -> None:
        super().__init__()
        self._logger = provider.get_logger("fuelroute", version("fuelroute"))
        self.setFormatter(json_formatter(process))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in _OWN:
            return
        try:
            self._emit(record)
        except Exception:
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber

        fields = msgspec.json.decode(self.format(record))
        self._logger.emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                context=_context(tracing.current_traceparent()),
                severity_text=record.levelname,
                severity_number=SeverityNumber(min(record.levelno, logging.CRITICAL) * 4 // 10 + 1),
                body=fields.pop("event", ""),
                attributes={
                    name: value if isinstance(value, str | bool | int | float) else write(value).decode()
                    for name, value in fields.items()
                    if value is not None
                },
            )
        )
