"""The background jobs: their names, queues and payloads, and how to enqueue them.

A job carries ids, never data, and is only a hint: whatever it asks for can be derived from the database, and the
sweep asks again when a hint is lost. So enqueueing never fails its caller.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

import dramatiq
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from domain.errors import FuelrouteError
from domain.observability import get_logger
from domain.queue.circuit import RedisCircuit
from domain.settings import Settings

log = get_logger(__name__)

QUEUES = ("imports", "arrivals", "plans", "messages")
JOB_ITEMS = 256
"""Ids in one job at most: large enough that a job's fixed cost vanishes, small enough for a short transaction."""

JOB_TRUCKS = 64
"""Likewise of trucks to process: each may bring many positions, and its route stays locked until all are processed."""

SWEEP_GRACE = timedelta(seconds=10)
"""How long a job may take to do its work before the sweep asks again."""

OUTCOME_CHANNEL = "fuelroute:outcomes:"
"""Redis channel, followed by the name of the ingress process that waits for the routes of a job."""

MIN_REDIS = (6, 2)  # BLMOVE

_PRODUCER_TIMEOUT_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Job:
    """One hint for the workers of `queue`."""

    name: str
    queue: str
    payload: dict[str, Any]
    key: str | None = None
    """What the job is about, where one job about it is enough."""
    company_id: UUID | None = field(default=None, compare=False)
    """The company in whose lane the job waits. None: the job is of several companies, or small."""


class QueueLength(NamedTuple):
    """Jobs that wait in a queue, and those that failed for good; Dramatiq keeps them for a week."""

    waiting: int
    dead_letters: int


def import_routes(
    route_ids: Sequence[UUID], company_id: UUID | None = None, *, reply_to: str | None = None, key: str | None = None
) -> Job:
    """Match these routes, hold or import them; tell the ingress process `reply_to` when it is done."""
    return Job("imports.run", "imports", {"route_ids": list(route_ids), "reply_to": reply_to}, key, company_id)


def import_due(company_id: UUID, portion: int) -> Job:
    """Import a batch of what is due of a company when the job runs. Jobs with different portions may run at the same
    time."""
    payload = {"portion": portion, "company_id": company_id}
    return Job("imports.due", "imports", payload, f"imports.due {company_id} {portion}", company_id)


def process_positions(
    environment: str, vehicle_ids: Sequence[UUID], company_id: UUID | None = None, *, key: str | None = None
) -> Job:
    """Compare the new positions of these vehicles, at most `JOB_TRUCKS`, with the stops of their routes."""
    payload = {"environment": environment, "vehicle_ids": list(vehicle_ids)}
    return Job("arrivals.process", "arrivals", payload, key, company_id)


def build_plan(route_id: UUID, company_id: UUID | None = None) -> Job:
    """Compute the fuel plan of a route whose truck has arrived."""
    return Job("plans.build", "plans", {"route_id": route_id}, f"plans.build {route_id}", company_id)


def review_plan(route_id: UUID, company_id: UUID | None = None) -> Job:
    """Review the plan of a route: its fuel or prices have changed while the truck was at its first stop."""
    return Job("plans.review", "plans", {"route_id": route_id}, f"plans.review {route_id}", company_id)


def send_message(message_id: UUID, company_id: UUID | None = None) -> Job:
    """Send one message to its driver."""
    return Job("messages.send", "messages", {"message_id": message_id}, f"messages.send {message_id}", company_id)


Id = TypeVar("Id")


def in_batches(ids: Iterable[Id], size: int = JOB_ITEMS) -> Iterable[list[Id]]:
    """`ids` in lists of at most `size`."""
    batch: list[Id] = []
    for one in ids:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def redis_client(url: str, **options: Any) -> redis.Redis:
    """A client with short, bounded waits; `options` go to redis-py."""
    options = {
        "socket_timeout": _PRODUCER_TIMEOUT_SECONDS,
        "socket_connect_timeout": _PRODUCER_TIMEOUT_SECONDS,
        # once, for a connection that a restarted server has closed; a silent server is not waited for twice
        "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **options,
    }
    return redis.Redis.from_url(url, **options)


def async_redis_client(url: str) -> redis.asyncio.Redis:
    """Likewise for an event loop."""
    return redis.asyncio.Redis.from_url(
        url,
        socket_timeout=_PRODUCER_TIMEOUT_SECONDS,
        socket_connect_timeout=_PRODUCER_TIMEOUT_SECONDS,
        retry=AsyncRetry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


class RedisProblem(FuelrouteError):
    """Redis cannot serve us; the text says what to do."""


def check_redis(url: str, *, needed: bool = True) -> None:
    """Raises RedisProblem unless `url` leads to a usable Redis. One that is merely away is only logged when a
    process can do without it for a while.
    """
    try:
        version = redis_client(url).info("server")["redis_version"]
    except ValueError:
        raise RedisProblem("FUELROUTE_REDIS_URL is not a Redis address") from None
    except redis.RedisError as error:
        if needed:
            raise RedisProblem(
                f"cannot reach Redis ({error}): check FUELROUTE_REDIS_URL and that the server runs"
            ) from None
        log.warning("jobs.redis_away", error=str(error))
        return
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_REDIS:
        raise RedisProblem(f"Redis {version} is too old: Fuelroute needs Redis 6.2 or later, or Valkey")


NAMESPACE = "dramatiq"
"""In which Dramatiq's Redis broker keeps its queues."""

_DEAL = """
    local function deal(queue, free, share)
        local skipped, dealt = 0, {}
        while skipped < redis.call('llen', queue .. '.lanes') and redis.call('llen', queue) < DEALT do
            local company = redis.call('lpop', queue .. '.lanes')
            local lane = queue .. '.lane.' .. company
            if (dealt[company] or 0) < (free[company] or share) then
                local id = redis.call('lpop', lane)
                if id then
                    redis.call('rpush', queue, id)
                    redis.call('decr', queue .. '.laned')
                end
                dealt[company] = (dealt[company] or 0) + 1
                skipped = 0
            else
                skipped = skipped + 1
            end
            if redis.call('llen', lane) > 0 then
                redis.call('rpush', queue .. '.lanes', company)
            end
        end
    end
    local function join_lane(queue, company, id, push)
        local lane = queue .. '.lane.' .. company
        if redis.call(push, lane, id) == 1 then
            redis.call('rpush', queue .. '.lanes', company)
        end
        redis.call('incr', queue .. '.laned')
    end
""".replace("DEALT", "16")
"""Each company's jobs wait in a lane of their own, the list `.lane.COMPANY`; `.lanes` are the companies that have one,
in turn, and `.laned` counts what is in them. Workers take jobs from the queue's list. It is kept short: one job of each
company in turn is dealt to it from the lanes, but of a company no more than `free` tells, else its `share`."""

_PUT = (
    _DEAL
    + """
    local most, put = tonumber(ARGV[1]), {}
    for i = 3, #ARGV, 6 do
        local queue, company = KEYS[1] .. ':' .. ARGV[i], ARGV[i + 1]
        local list = company ~= '' and queue .. '.lane.' .. company or queue
        if redis.call('llen', list) < most then
            for j = i + 2, i + 4, 2 do
                if ARGV[j] ~= '' and redis.call('hsetnx', queue .. '.msgs', ARGV[j], ARGV[j + 1]) == 1 then
                    if company == '' then
                        redis.call('rpush', queue, ARGV[j])
                    else
                        join_lane(queue, company, ARGV[j], 'rpush')
                    end
                    put[ARGV[i]] = (put[ARGV[i]] or 0) + 1
                    break
                end
            end
        end
    end
    for queue, jobs in pairs(put) do
        deal(KEYS[1] .. ':' .. queue, {}, 1)
        redis.call('hincrby', KEYS[2], 'in ' .. queue, jobs)
    end
    if next(put) then
        redis.call('expire', KEYS[2], ARGV[2])
    end
"""
)
"""Puts jobs. Arguments for each: its queue, its company or an empty string, an id and a message, another id and message
or two empty strings. The first goes into the queue whose id is not there yet, unless too many wait there, or in the
company's lane. Dramatiq keeps a message in the hash `.msgs` until it is done, and its id in a list until a worker takes
it. What was put is counted for the minute, see `counts_of`."""

DEAL = (
    _DEAL
    + """
    local free = {}
    for i = 3, #ARGV, 2 do
        free[ARGV[i]] = tonumber(ARGV[i + 1])
    end
    deal(KEYS[1] .. ':' .. ARGV[1], free, tonumber(ARGV[2]))
"""
)
"""Deals jobs of a queue. Arguments: the queue, a company's share of the worker, and of companies that have jobs there
already how many more it takes."""

GIVE_BACK = (
    _DEAL
    + """
    local queue = KEYS[1] .. ':' .. ARGV[1]
    if redis.call('srem', KEYS[1] .. ':__acks__.' .. ARGV[2] .. '.' .. ARGV[1], ARGV[4]) == 1
            and redis.call('hexists', queue .. '.msgs', ARGV[4]) == 1 then
        join_lane(queue, ARGV[3], ARGV[4], 'lpush')
    end
"""
)
"""Puts a job that a worker has taken back at the head of its company's lane. Arguments: the queue, the worker, the
company, the id."""

MAX_WAITING = 10_000
"""At most so many jobs wait in a company's lane while workers are away or behind, and as many that are of several
companies. The sweep finds the rest."""

_ANY = 2**53
_Arguments = list[str | bytes | int]
_PUT_AT_ONCE = 500


COUNTS_KEPT_SECONDS = 2 * 3600


def minute_of(moment: float) -> int:
    """The number of a minute, of a time in seconds since 1970."""
    return int(moment // 60)


def counts_of(minute: int) -> str:
    """Redis hash that counts what went through the queues in a minute: `in QUEUE`, and as workers tell it `done QUEUE`
    and `failed QUEUE`."""
    return f"fuelroute:rates:{minute}"


def keys_now() -> list[str]:
    """Of the scripts that enqueue."""
    return [NAMESPACE, counts_of(minute_of(time.time()))]


class JobQueue:
    """Where jobs are put for the workers of any process. While Redis is away, nothing is put, and nobody waits."""

    def __init__(self, client: redis.Redis, circuit: RedisCircuit | None = None) -> None:
        self.client = client
        self._circuit = circuit or RedisCircuit(client)
        self._script = client.register_script(_PUT)

    @classmethod
    def of(cls, settings: Settings) -> "JobQueue":
        return cls(redis_client(settings.require_redis_url()))

    def put(self, *jobs: Job) -> bool:
        """False when Redis is away: the sweep will find the work.

        A job whose key waits or runs already is put a second time, since the first may have read the state already, but
        not a third time. Nothing is put into a queue that is full.
        """
        return self._put(_put_arguments(jobs))

    def put_once(self, *jobs: Job) -> bool:
        """Likewise, for the sweep: a job whose key waits or runs already is not put again. A full queue is no limit."""
        return self._put(_put_arguments(jobs, once=True))

    def _put(self, batches: Iterable[_Arguments]) -> bool:
        def put() -> bool:
            for arguments in batches:
                self._script(keys=keys_now(), args=arguments)
            return True

        return self._circuit.ask(put, otherwise=False)

    def backlog(self, queue: str) -> int:
        """Jobs that wait in a queue; 0 when Redis is away."""
        return self._circuit.ask(lambda: self.length(queue).waiting, otherwise=0)

    def length(self, queue: str) -> QueueLength:
        """What a queue holds now. Raises redis.RedisError, so that a metric shows no number when there is none."""
        name = f"{NAMESPACE}:{queue}"
        with self.client.pipeline(transaction=False) as ask:
            ask.llen(name)
            ask.get(f"{name}.laned")
            ask.zcard(f"{name}.XQ")
            listed, laned, dead_letters = ask.execute()
        return QueueLength(listed + int(laned or 0), dead_letters)

    def announce(self, reply_to: str, outcomes: bytes) -> None:
        """Tells the ingress process that waits for a job what came of it. Without word it reads the database."""
        self._circuit.ask(lambda: self.client.publish(OUTCOME_CHANNEL + reply_to, outcomes), otherwise=None)


class AsyncJobQueue:
    """The same queues, for an event loop."""

    def __init__(self, client: redis.asyncio.Redis, circuit: RedisCircuit) -> None:
        self._circuit = circuit
        self._script = client.register_script(_PUT)

    async def put(self, *jobs: Job) -> bool:
        """As `JobQueue.put`."""

        async def put() -> bool:
            for arguments in _put_arguments(jobs):
                await self._script(keys=keys_now(), args=arguments)
            return True

        return await self._circuit.ask_async(put, otherwise=False)


def _put_arguments(jobs: Iterable[Job], *, once: bool = False) -> Iterator[_Arguments]:
    """What the script takes, for each portion of the jobs. Unless `once`, a job whose key waits or runs already is put
    a second time, and a full queue takes nothing."""
    for batch in in_batches(jobs, _PUT_AT_ONCE):
        arguments: _Arguments = [_ANY if once else MAX_WAITING, COUNTS_KEPT_SECONDS]
        for job in batch:
            key = job.key if job.key is not None else str(uuid4())
            second = f"{key} again" if job.key is not None and not once else ""
            arguments += (job.queue, job.company_id.hex if job.company_id is not None else "")
            for message_id in (key, second):
                arguments += (message_id, _message(job, message_id) if message_id else "")
        yield arguments


def _message(job: Job, message_id: str) -> bytes:
    """As Dramatiq's Redis broker stores it. Ids are written as hexadecimal digits."""
    options = {"redis_message_id": message_id}
    if job.company_id is not None:
        options["company_id"] = job.company_id.hex
    payload = {name: _written(value) for name, value in job.payload.items()}
    message: dramatiq.Message[Any] = dramatiq.Message(job.queue, job.name, (), payload, options)
    return message.encode()


def _written(value: Any) -> Any:
    if isinstance(value, list):
        return [_written(each) for each in value]
    return value.hex if isinstance(value, UUID) else value
