"""The lines of the log: structlog's steps and their formats.

`observability` loads this module with the first line, because structlog takes 0.1 s of processor time, and most
commands log nothing."""

import logging
import sys
from collections.abc import Mapping
from typing import Any

import structlog

from domain.ids import with_shown_ids
from domain.settings import Settings
from domain.telemetry import tracing
from domain.text import Harmless, printable, without_secrets


def configure_lines(settings: Settings, process: str) -> logging.Formatter:
    """Sets up structlog for this process. Returns the formatter of its lines and of those of every library."""
    structlog.configure(
        processors=[*_shared(process), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(settings.log_level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    return _formatter(process, renderer)


def json_formatter(process: str) -> logging.Formatter:
    """Formats a line of the log as the JSON of `configure_lines`."""
    return _formatter(process, structlog.processors.JSONRenderer())


def _formatter(process: str, renderer: structlog.typing.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(process),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _fit_to_be_read, renderer],
    )


def _shared(process: str) -> list[structlog.typing.Processor]:
    """The steps of each line, from structlog or from a library's logging."""
    return [
        structlog.contextvars.merge_contextvars,
        _traced,
        _named(process),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]


def line_writer(name: str) -> structlog.stdlib.BoundLogger:
    """structlog's logger with this name."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def write_ready_line(name: str, event: str, fields: Mapping[str, Any]) -> None:
    """Writes a line of level info though the settings may ask for less."""
    logger = logging.getLogger(f"{name}.ready")
    logger.setLevel(logging.INFO)
    filtering = structlog.make_filtering_bound_logger(logging.INFO)
    structlog.wrap_logger(logger, wrapper_class=filtering).info(event, **fields)


def _fit_to_be_read(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Makes a line safe to read. Errors quote their input, so secrets are masked in every line, and control characters
    are escaped so that no input forges a line."""
    return {
        name: printable(_fit(value), keep="\n") if name == "exception" else _fit(value, one_line=True)
        for name, value in with_shown_ids(event).items()
    }


def _fit(value: Any, *, one_line: bool = False) -> Any:
    if isinstance(value, Harmless):
        return value.value
    if isinstance(value, Mapping):
        return {name: _fit(each, one_line=one_line) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_fit(each, one_line=one_line) for each in value]
    if value is None or isinstance(value, int | float):
        return value
    text = without_secrets(value if isinstance(value, str) else repr(value))
    return printable(text) if one_line else text


def _traced(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Names the trace that is bound, unless the line names another."""
    trace = tracing.bound()
    if trace.request_id is not None:
        event.setdefault("request_id", trace.request_id)
    if trace.trace_id is not None:
        event.setdefault("trace_id", trace.trace_id)
    return event


def _named(process: str) -> structlog.typing.Processor:
    def add_process(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["process"] = process
        return event

    return add_process
