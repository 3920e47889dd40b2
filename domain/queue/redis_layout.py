"""Every Redis key of the queues, and the Lua scripts that change several of them in one step.

Dramatiq's Redis broker keeps a queue under `QUEUE`, which is its namespace and the queue's name: `dramatiq:plans`.

| key | type | holds |
|---|---|---|
| `QUEUE` | list | ids of the jobs that workers take next |
| `QUEUE.msgs` | hash | the message of each job by its id, from the time it is enqueued until it is done |
| `QUEUE.DQ`, `QUEUE.DQ.msgs` | list, hash | the same for jobs that wait for their next attempt |
| `QUEUE.XQ` | sorted set | ids of dead letters, by the millisecond at which they died |
| `QUEUE.XQ.msgs` | hash | the messages of the dead letters; Dramatiq drops both after a week |
| `dramatiq:__acks__.WORKER.NAME` | set | ids of the jobs that a worker has taken from the queue NAME and not finished |
| `dramatiq:__heartbeats__` | sorted set | ids of workers, by the millisecond of their last command |

Fuelroute adds these keys. A company's jobs wait in a backlog of their own, and the scripts deal them from there to
Dramatiq's list. The keys of backlogs say `lane`: jobs of an earlier build may wait under them.

| key | type | holds |
|---|---|---|
| `QUEUE.lane.COMPANY` | list | ids of the company's jobs that are not dealt yet |
| `QUEUE.lanes` | list | companies that have a backlog, the next one first |
| `QUEUE.laned` | number | jobs in all backlogs of the queue |
| `fuelroute:rates:MINUTE` | hash | the jobs of a minute: `in NAME`, `done NAME`, `failed NAME` |
| `fuelroute:alive` | hash | the sign of life of each worker, by its id: its connection, and a number that grows |
| `fuelroute:unfinished` | hash | by a job: the worker that works at it or died over it, and how many died before |
| `fuelroute:beats:workers` | hash | the heartbeat of each worker, by its id |
| `fuelroute:beats:finished` | hash | when a job of each queue was last finished |
| `fuelroute:beats:passes` | hash | the last run of each pass of the scheduler, by its name |
| `fuelroute:beats:runs` | list | runs of passes that moved something or failed, the newest first |
| `fuelroute:outcomes:PROCESS` | channel | outcomes of imports, for the ingress process that waits for them |

`tests/domain/queue/test_redis_layout.py` compares the first table with what Dramatiq writes.
"""

import time

NAMESPACE = "dramatiq"

DRAMATIQ_HEARTBEATS = f"{NAMESPACE}:__heartbeats__"
SIGNS_OF_LIFE = "fuelroute:alive"
UNFINISHED_JOBS = "fuelroute:unfinished"
WORKER_HEARTBEATS = "fuelroute:beats:workers"
LAST_FINISHED = "fuelroute:beats:finished"
SCHEDULER_LAST_RUNS = "fuelroute:beats:passes"
SCHEDULER_RECENT_RUNS = "fuelroute:beats:runs"


def waiting_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}"


def messages_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.msgs"


def delayed_messages_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.DQ.msgs"


def dead_letters_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.XQ"


def dead_letter_messages_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.XQ.msgs"


def taken_key(worker: str, queue: str) -> str:
    return f"{NAMESPACE}:__acks__.{worker}.{queue}"


def backlog_key(queue: str, company: str) -> str:
    return f"{NAMESPACE}:{queue}.lane.{company}"


def backlog_companies_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.lanes"


def backlog_length_key(queue: str) -> str:
    return f"{NAMESPACE}:{queue}.laned"


def rates_key(minute: int) -> str:
    return f"fuelroute:rates:{minute}"


def minute_of(moment: float) -> int:
    """The number of the minute of a time in seconds since 1970."""
    return int(moment // 60)


def keys_of_enqueueing() -> list[str]:
    """The keys of the scripts that enqueue: the namespace, and the counts of this minute."""
    return [NAMESPACE, rates_key(minute_of(time.time()))]


def outcomes_channel(process: str) -> str:
    return f"fuelroute:outcomes:{process}"


RATES_KEPT_SECONDS = 2 * 3600

_LONGEST_DEALT = 16
"""Longest list that workers take from: it is kept short so that a company which comes later does not wait behind all
others."""

_DEAL = f"""
    local function deal(queue, free, share)
        local skipped, dealt = 0, {{}}
        while skipped < redis.call('llen', queue .. '.lanes') and redis.call('llen', queue) < {_LONGEST_DEALT} do
            local company = redis.call('lpop', queue .. '.lanes')
            local backlog = queue .. '.lane.' .. company
            if (dealt[company] or 0) < (free[company] or share) then
                local id = redis.call('lpop', backlog)
                if id then
                    redis.call('rpush', queue, id)
                    redis.call('decr', queue .. '.laned')
                end
                dealt[company] = (dealt[company] or 0) + 1
                skipped = 0
            else
                skipped = skipped + 1
            end
            if redis.call('llen', backlog) > 0 then
                redis.call('rpush', queue .. '.lanes', company)
            end
        end
    end
"""
"""Deals one job of each company in turn, at most as many of a company as `free` has for it, or `share` where it has
none."""

_JOIN_LANE = """
    local function join_backlog(queue, company, id, push)
        local backlog = queue .. '.lane.' .. company
        if redis.call(push, backlog, id) == 1 then
            redis.call('rpush', queue .. '.lanes', company)
        end
        redis.call('incr', queue .. '.laned')
    end
"""
"""Adds a job to its company's backlog: at the end by `rpush`, at the head by `lpush`."""

_COUNT_ENTERED = f"""
    local function count_entered(queue, jobs)
        redis.call('hincrby', KEYS[2], 'in ' .. queue, jobs)
        redis.call('expire', KEYS[2], {RATES_KEPT_SECONDS})
    end
"""
"""Counts jobs that entered a queue in this minute."""

PUT = (
    _DEAL
    + _JOIN_LANE
    + _COUNT_ENTERED
    + """
    local most, put = tonumber(ARGV[1]), {}
    for i = 2, #ARGV, 6 do
        local queue, company = KEYS[1] .. ':' .. ARGV[i], ARGV[i + 1]
        local list = company ~= '' and queue .. '.lane.' .. company or queue
        if redis.call('llen', list) < most then
            for j = i + 2, i + 4, 2 do
                if ARGV[j] ~= '' and redis.call('hsetnx', queue .. '.msgs', ARGV[j], ARGV[j + 1]) == 1 then
                    if company == '' then
                        redis.call('rpush', queue, ARGV[j])
                    else
                        join_backlog(queue, company, ARGV[j], 'rpush')
                    end
                    put[ARGV[i]] = (put[ARGV[i]] or 0) + 1
                    break
                end
            end
        end
    end
    for queue, jobs in pairs(put) do
        deal(KEYS[1] .. ':' .. queue, {}, 1)
        count_entered(queue, jobs)
    end
"""
)
"""Enqueues jobs.

Keys: the namespace, the counts of this minute. Arguments: how many jobs may wait in one list or backlog, and six for
each job: its queue, its company or an empty string, an id and its message, a second id and its message or two empty
strings. The job gets the first of its ids that is not in the queue yet. It is dropped when both are, or when its list
or backlog is full."""

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
"""Deals jobs of a queue from the backlogs to the list.

Key: the namespace. Arguments: the queue, the number of jobs that a worker takes of a company that has none there, and
for each company that has some there its id and the number of further jobs that the worker takes."""

GIVE_BACK = (
    _JOIN_LANE
    + """
    local queue = KEYS[1] .. ':' .. ARGV[1]
    if redis.call('srem', KEYS[1] .. ':__acks__.' .. ARGV[2] .. '.' .. ARGV[1], ARGV[4]) == 1
            and redis.call('hexists', queue .. '.msgs', ARGV[4]) == 1 then
        join_backlog(queue, ARGV[3], ARGV[4], 'lpush')
    end
"""
)
"""Returns a job that a worker has taken to the head of its company's backlog.

Key: the namespace. Arguments: the queue, the worker, the company, the job's id.
"""

RETURN_JOBS = """
    if ARGV[2] ~= '' and redis.call('hget', KEYS[2], ARGV[1]) ~= ARGV[2] then
        return -1
    end
    local returned = 0
    for i = 3, #ARGV do
        local taken = KEYS[1] .. ':__acks__.' .. ARGV[1] .. '.' .. ARGV[i]
        for _, id in ipairs(redis.call('smembers', taken)) do
            if redis.call('hexists', KEYS[1] .. ':' .. ARGV[i] .. '.msgs', id) == 1 then
                redis.call('rpush', KEYS[1] .. ':' .. ARGV[i], id)
                returned = returned + 1
            end
        end
        redis.call('del', taken)
    end
    redis.call('hdel', KEYS[2], ARGV[1])
    redis.call('zrem', KEYS[1] .. ':__heartbeats__', ARGV[1])
    return returned
"""
"""Returns the jobs that a worker has taken and not finished to the ends of their queues, and forgets the worker. The
result is the number of jobs, or -1 if the worker has shown another sign of life or is forgotten already.

Keys: the namespace, the signs of life. Arguments: the worker, its last known sign of life (empty for any), the queues
with their delayed ones."""

_UNFINISHED_KEPT_SECONDS = 86_400

BEGIN_JOB = f"""
    local before = redis.call('hget', KEYS[1], ARGV[1])
    local deaths = 0
    if before then
        local worker, died = string.match(before, '^(.*) (%d+)$')
        deaths = tonumber(died) + 1 - redis.call('hexists', KEYS[2], worker)
    end
    if deaths > 0 and ARGV[3] == '' then
        return deaths
    end
    redis.call('hset', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. deaths)
    redis.call('expire', KEYS[1], {_UNFINISHED_KEPT_SECONDS})
    return deaths
"""
"""Returns how many workers have died over a job since it last ended, and notes that a worker begins it. A job over
which one has died is noted only where it has its turn.

Keys: the unfinished jobs, the signs of life. Arguments: the job, the worker, `turn` or an empty string."""

END_JOB = """
    local worker = string.match(redis.call('hget', KEYS[1], ARGV[1]) or '', '^(.*) %d+$')
    return worker == ARGV[2] and redis.call('hdel', KEYS[1], ARGV[1]) or 0
"""
"""Notes that a worker has ended a job, unless another one has begun it since.

Key: the unfinished jobs. Arguments: the job, the worker."""

LEAVE_JOBS = """
    local noted = redis.call('hgetall', KEYS[1])
    for i = 1, #noted, 2 do
        if string.match(noted[i + 1], '^(.*) %d+$') == ARGV[1] then
            redis.call('hdel', KEYS[1], noted[i])
        end
    end
"""
"""Forgets the jobs that a worker works at: it stops in order, which is no death.

Key: the unfinished jobs. Argument: the worker."""

TELL_ERROR = """
    if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
        redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
    end
"""
"""Replaces the message of a job by one that has the error. Nothing happens if the job is done.

Key: the messages of a queue. Arguments: the id, the message."""

REPLAY = (
    _COUNT_ENTERED
    + """
    local taken = 0
    for i = 2, #ARGV, 2 do
        local name = KEYS[1] .. ':' .. ARGV[1]
        if redis.call('zrem', name .. '.XQ', ARGV[i]) == 1 then
            taken = taken + 1
            redis.call('hdel', name .. '.XQ.msgs', ARGV[i])
            if redis.call('hsetnx', name .. '.msgs', ARGV[i], ARGV[i + 1]) == 1 then
                redis.call('rpush', name, ARGV[i])
                count_entered(ARGV[1], 1)
            end
        end
    end
    return taken
"""
)
"""Enqueues dead letters of a queue again, and returns how many of them were still there.

Keys: the namespace, the counts of this minute. Arguments: the queue, and for each dead letter its id and the message to
enqueue. A job that waits or runs already is not enqueued twice.
"""

DISCARD = """
    local taken = 0
    for i = 2, #ARGV do
        local name = KEYS[1] .. ':' .. ARGV[1] .. '.XQ'
        taken = taken + redis.call('zrem', name, ARGV[i])
        redis.call('hdel', name .. '.msgs', ARGV[i])
    end
    return taken
"""
"""Removes dead letters of a queue, and returns how many of them were still there.

Key: the namespace. Arguments: the queue, the ids.
"""
