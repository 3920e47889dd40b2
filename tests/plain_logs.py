"""The log of tests that set up none: structlog's own, but for its tracebacks and its stream."""

import sys

import structlog


def log_plainly() -> None:
    """Shows tracebacks as Python does. Those of structlog show every variable, which takes rich a second of processor
    time for each, and on a busy machine the ten after which a sweep takes over. Lines go to standard error, so that
    those of another thread stand in no output of a command under test."""
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[*processors, renderer],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # pytest changes it with each test
    )
