"""Jobs as Dramatiq writes them: the message of a job, and a job read from its message."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from domain.text import printable, without_secrets

JOB_ID = "redis_message_id"
"""The option in which Dramatiq's Redis broker keeps the id of a job."""

ERROR = "traceback"
"""The option with the error of the last attempt, in as many lines as Python prints. Dramatiq names it."""

UNREADABLE = "unreadable"
"""The name of a dead letter whose message could not be read. No such job exists."""

COMPANY = "company_id"
"""The option that names the company in whose backlog a job waits."""


COMPANIES = "company_ids"
"""The option with the companies of a job that waits in no backlog because it is for several."""


def companies_of(options: Mapping[str, Any]) -> list[UUID] | None:
    """The companies whose data a job touches; None for a job of an earlier release, which did not say."""
    companies = [options[COMPANY]] if COMPANY in options else options.get(COMPANIES)
    return [UUID(one) for one in companies] if companies is not None else None


class StoredJob(NamedTuple):
    """A job as it is stored in Redis."""

    id: str
    queue: str
    job: str
    payload: dict[str, Any]
    enqueued_at: datetime
    """When it was enqueued, or put back after a failed attempt."""
    attempts: int
    error: str
    """The last line of the error of the last failed attempt; empty if there is none. Secrets are left out."""
    company_options: Mapping[str, Any]
    """The options that name its companies."""


def encode_message(
    queue: str,
    name: str,
    payload: Mapping[str, Any],
    job_id: str,
    *,
    company: str | None = None,
    companies: Sequence[str] = (),
    error: str = "",
) -> bytes:
    """The message of a job that has not been tried yet; with `error`, of a dead letter."""
    options: dict[str, Any] = {COMPANY: company} if company is not None else {COMPANIES: list(companies)}
    return _encode(queue, name, payload, job_id, options | ({ERROR: error} if error else {}))


def encode_again(job: StoredJob) -> bytes:
    """The message of a stored job, for the same companies, as if it had never been tried."""
    return _encode(job.queue, job.job, job.payload, job.id, job.company_options)


def _encode(queue: str, name: str, payload: Mapping[str, Any], job_id: str, options: Mapping[str, Any]) -> bytes:
    import dramatiq  # which commands that only read the queues do not load

    message: dramatiq.Message[Any] = dramatiq.Message(queue, name, (), dict(payload), {JOB_ID: job_id, **options})
    return message.encode()


class _Options(Struct):
    redis_message_id: str


class _Message(Struct, forbid_unknown_fields=True):
    """A message with which Dramatiq's workers can do something. They would die of another one."""

    queue_name: str
    actor_name: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: _Options
    message_id: str
    message_timestamp: float


_READABLE = msgspec.json.Decoder(_Message)


def is_readable(queue: str, message: bytes) -> bool:
    """True if workers of that queue can read the message."""
    try:
        return _READABLE.decode(message).queue_name == queue
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def unreadable_letter(queue: str, job_id: str, message: bytes) -> bytes:
    """The message of a dead letter that stands for one that cannot be read."""
    error = f"This release cannot read the message {message[:200]!r}"
    return encode_message(queue, UNREADABLE, {}, job_id, error=error)


def read_message(queue: str, job_id: bytes | str, message: bytes) -> StoredJob | None:
    """The job of a message; None if Dramatiq did not write the message."""
    try:
        document = msgspec.json.decode(message, type=dict[str, Any])
        options = document["options"]
        return StoredJob(
            job_id if isinstance(job_id, str) else job_id.decode(),
            queue,
            str(document["actor_name"]),
            dict(document["kwargs"]),
            datetime.fromtimestamp(options.get("requeue_timestamp", document["message_timestamp"]) / 1000, UTC),
            int(options.get("retries", 0)),
            _last_line(str(options.get(ERROR, ""))),
            {name: options[name] for name in (COMPANY, COMPANIES) if name in options},
        )
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, OverflowError, OSError):
        return None


def _last_line(traceback: str) -> str:
    lines = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return printable(without_secrets(lines[-1]))[:300] if lines else ""
