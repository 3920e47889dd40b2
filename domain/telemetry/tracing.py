"""The trace of a push, which follows a route from the request to the message: the request's id, and the trace context
that came with it (`traceparent`, https://www.w3.org/TR/trace-context/).

The route's row keeps both, because a job carries ids only and may come days later. Whoever works on the route binds its
trace: then every line of the log names it, and every call to another service passes it on. Spans are made only where
`spans` is set, by `telemetry_export`.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, Protocol

SpanKind = Literal["server", "client", "consumer"]

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_KNOWN_FLAGS = 0x03
"""The trace flags of version 00: `sampled` and `random-trace-id`."""

_MOST_CHARACTERS = 256
_MOST_LINKS = 128


class Trace(NamedTuple):
    """The push that brought a route's present input. Both fields are None for a route that did not come through the
    API."""

    request_id: str | None = None
    traceparent: str | None = None

    @property
    def trace_id(self) -> str | None:
        return trace_id_of(self.traceparent)


NO_TRACE = Trace()


class TraceSpan(Protocol):
    """A piece of work that is under way."""

    @property
    def traceparent(self) -> str:
        """The trace context to pass on to what the work calls."""

    def end(
        self,
        *,
        name: str | None = None,
        failed: str | None = None,
        attributes: Mapping[str, str | int] | None = None,
    ) -> None:
        """Ends the span. `name` replaces its first name. `failed` is the kind of an error, without its text, which may
        quote private data."""


class TraceSpans(Protocol):
    """Makes spans and exports them."""

    def start(
        self,
        name: str,
        kind: SpanKind,
        *,
        parent: str | None,
        links: Iterable[str] = (),
        since_nanoseconds: int | None = None,
        attributes: Mapping[str, str | int] | None = None,
    ) -> TraceSpan: ...


spans: TraceSpans | None = None
"""Makes spans; None unless OpenTelemetry is turned on for this process."""

_bound: ContextVar[Trace] = ContextVar("trace", default=NO_TRACE)
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


def read_traceparent(header: str) -> str | None:
    """The trace context of a request, as version 00 writes it. None for a header that breaks the rules: it is ignored,
    as the standard asks."""
    found = _TRACEPARENT.fullmatch(header) if len(header) <= _MOST_CHARACTERS else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None) or not (trace_id.strip("0") and parent_id.strip("0")):
        return None
    return f"00-{trace_id}-{parent_id}-{int(flags, 16) & _KNOWN_FLAGS:02x}"


def trace_id_of(traceparent: str | None) -> str | None:
    return traceparent[3:35] if traceparent is not None else None


def bind(trace: Trace) -> None:
    """Names the trace in the lines of the log from now on, and passes it on in calls to other services. It holds for
    the thread or the task, until `unbind`."""
    _bound.set(trace)
    _current.set(trace.traceparent)


def unbind() -> None:
    bind(NO_TRACE)


def bound() -> Trace:
    """The trace that lines of the log name."""
    return _bound.get()


def current_traceparent() -> str | None:
    return _current.get()


def outgoing_headers() -> dict[str, str]:
    """The headers by which a call to another service passes the bound trace on. Empty where there is none."""
    traceparent = _current.get()
    return {"traceparent": traceparent} if traceparent is not None else {}


@contextmanager
def working(name: str, kind: SpanKind, trace: Trace | None = None, **attributes: str | int) -> Iterator[None]:
    """A piece of work about a push, by default the push whose trace is bound. Without spans it only binds the trace."""
    if trace is not None:
        bind(trace)
    if spans is None:
        yield
        return
    before = _current.get()
    span = spans.start(name, kind, parent=before, attributes=attributes)
    _current.set(span.traceparent)
    failed: str | None = None
    try:
        yield
    except BaseException as error:
        failed = type(error).__name__
        raise
    finally:
        _current.set(before)
        span.end(failed=failed)


def record(name: str, traces: Iterable[Trace], *, seconds: float, **attributes: str | int) -> None:
    """Records a span for work about many pushes that has just ended after `seconds`; the span is linked to theirs."""
    if spans is None:
        return
    links = list(dict.fromkeys(trace.traceparent for trace in traces if trace.traceparent is not None))[:_MOST_LINKS]
    since = time.time_ns() - int(seconds * 1e9)
    spans.start(name, "consumer", parent=None, links=links, since_nanoseconds=since, attributes=attributes).end()
