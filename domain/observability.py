"""Structured logs, the same for every process. Events are static names; ids are fields; secrets are neither."""

import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import structlog

from domain.ids import with_shown_ids
from domain.settings import Settings
from domain.text import Harmless, printable, without_secrets


def configure_logging(settings: Settings, process: str) -> None:
    """JSON lines (or text) on standard error, from structlog and from every library's logging."""
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
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(process, renderer))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level.upper())
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it would log addresses; outcomes are ours to log
    for talkative in ("alembic", "apscheduler", "dramatiq", "httpx", "httpcore", "uvicorn.access", "psycopg.pool"):
        logging.getLogger(talkative).setLevel(max(logging.WARNING, root.level))
    sys.excepthook = _print_unforeseen
    threading.excepthook = _print_unforeseen_of_a_thread


def json_formatter(process: str) -> logging.Formatter:
    """Formats a line of the log as the JSON of `configure_logging`."""
    return _formatter(process, structlog.processors.JSONRenderer())


def _formatter(process: str, renderer: structlog.typing.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(process),
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _fit_to_be_read, renderer],
    )


def _shared(process: str) -> list[structlog.typing.Processor]:
    """The steps of each line, of structlog and of a library's logging."""
    return [
        structlog.contextvars.merge_contextvars,
        _named(process),
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]


def _print_unforeseen(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A traceback as Python prints it, but for secrets and control characters in the error's text."""
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(printable(without_secrets(text), keep="\n"))


def _print_unforeseen_of_a_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_type is not SystemExit:  # which ends a thread in silence
        _print_unforeseen(failed.exc_type, failed.exc_value or failed.exc_type(), failed.exc_traceback)


def _fit_to_be_read(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Errors quote their input. So secrets are masked in every line of the log, and control characters are escaped, so
    that no input forges a line."""
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


def _named(process: str) -> structlog.typing.Processor:
    def add_process(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["process"] = process
        return event

    return add_process


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module: `log = get_logger(__name__)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
