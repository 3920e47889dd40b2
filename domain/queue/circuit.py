"""Lets the service work without Redis while Redis does not answer. One caller waits for the error; no other caller
waits until Redis is back."""

import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import ref

import redis

from domain.telemetry.logs import get_logger

log = get_logger(__name__)

Answer = TypeVar("Answer")

REST_SECONDS = 1.0
"""The pause before Redis is tried again. A thread of its own tries, because a silent server costs each try its
time-out."""


class RedisCircuit:
    """A circuit breaker: closed while Redis answers, open from a failure until Redis answers again. Threads and an
    event loop may share it. The blocking `client` finds out when Redis is back."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._open = False
        self._lock = threading.Lock()

    def ask(self, question: Callable[[], Answer], *, otherwise: Answer) -> Answer:
        """The answer of Redis; `otherwise` if it fails, and at once while it is away."""
        if self._open:
            return otherwise
        try:
            return question()
        except redis.RedisError as error:
            self._fail(error)
            return otherwise

    async def ask_async(self, question: Callable[[], Awaitable[Answer]], *, otherwise: Answer) -> Answer:
        """The answer of Redis for an event loop; `otherwise` if it fails, and at once while it is away."""
        if self._open:
            return otherwise
        try:
            return await question()
        except redis.RedisError as error:
            self._fail(error)
            return otherwise

    def _fail(self, error: redis.RedisError) -> None:
        with self._lock:
            if self._open:  # others were asking at the same time
                return
            self._open = True
        log.warning("redis.away", error=str(error))
        threading.Thread(target=_try_until_it_answers, args=(ref(self),), name="redis-circuit", daemon=True).start()

    def try_again(self) -> bool:
        """Asks Redis for a sign of life. Closes the circuit and returns True when it answers."""
        try:
            self._client.ping()
        except Exception:  # whatever it is, the thread that tries is the only way back
            return False
        self._open = False
        log.info("redis.back")
        return True


def _try_until_it_answers(circuit: "ref[RedisCircuit]") -> None:
    """Tries again and again until Redis answers, as long as the circuit is in use."""
    while True:
        time.sleep(REST_SECONDS)
        held = circuit()
        if held is None or held.try_again():
            return
        del held
