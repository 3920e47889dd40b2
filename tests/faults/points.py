"""Fault points: places in the service's functions where a process of the tests kills itself, once.

`install` runs inside a process before its command does. It replaces each named function everywhere in the service, and
the functions that commit. The replacements do nothing unless the file `armed` names a point. Then the first process
that reaches the point renames the file to `struck` and kills itself with SIGKILL.
"""

import functools
import inspect
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from domain.queue.jobs import Job

When = Literal["before", "after"]


class Point(NamedTuple):
    """A step of the service: the call of a function, or the commit of the transaction in which the function ran."""

    function: str
    """The function's dotted name: `package.module:function` or `package.module:Class.method`."""
    commits: bool = True
    """True if the step is the commit that follows, False if it is the call itself."""
    job: str | None = None
    """The name of the job that the function must be called with."""
    by: str | None = None
    """A function in whose transaction the job must have been collected; it is a point of its own."""

    @property
    def name(self) -> str:
        what = f"{'commit of' if self.commits else 'call of'} {self.function}"
        return " ".join([what, *(one for one in (self.job, self.by) if one is not None)])

    def is_meant(self, arguments: Iterable[Any], reached: Collection[str]) -> bool:
        """`reached` are the names of the commits that the transaction was on its way to."""
        if self.by is not None and Point(self.by).name not in reached:
            return False
        return self.job is None or any(isinstance(one, Job) and one.name == self.job for one in arguments)


_COMMITS = (
    "domain.database.connections:Database.transaction",
    "domain.database.connections:Database.pipelined_transaction",
    "domain.database.connections:connected",
)
"""The transactions of threads and of commands: each commits as its block ends."""

_PUTS = "domain.database.connections:put_after_commit"

_COMMITS_BY_ITSELF = "domain.database.async_connections:AsyncDatabase.store"
"""The statement of an event loop, which commits by itself."""

_PACKAGES = ("connectors", "deploy", "domain", "ingress", "scheduler", "workers")


class _Faults:
    def __init__(self, folder: Path) -> None:
        self._armed, self._struck = folder / "armed", folder / "struck"
        self._reached: ContextVar[frozenset[str]] = ContextVar("reached", default=frozenset())
        """The points whose function has run in this transaction."""

    def die_if_armed(self, names: Collection[str], when: When) -> None:
        with suppress(FileNotFoundError):  # nothing is armed, or another process was quicker
            if names and self._armed.read_text() in [f"{when} {name}" for name in names]:
                self._armed.rename(self._struck)
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)

    def around_call(self, point: Point, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def replaced_async(*args: Any, **kwargs: Any) -> Any:
                meant = [point.name] if point.is_meant(args, self._reached.get()) else []
                self.die_if_armed(meant, "before")
                result = await function(*args, **kwargs)
                self.die_if_armed(meant, "after")
                return result

            return replaced_async

        @functools.wraps(function)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            meant = [point.name] if point.is_meant(args, self._reached.get()) else []
            if point.commits:
                self._reached.set(self._reached.get() | set(meant))
                return function(*args, **kwargs)
            self.die_if_armed(meant, "before")
            result = function(*args, **kwargs)
            self.die_if_armed(meant, "after")
            return result

        return replaced

    def around_transaction(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        @functools.wraps(begin)
        def replaced(*args: Any, **kwargs: Any) -> Iterator[Any]:
            self._reached.set(frozenset())
            with begin(*args, **kwargs) as connection:
                yield connection
                self.die_if_armed(self._reached.get(), "before")
            self.die_if_armed(self._reached.get(), "after")
            self._reached.set(frozenset())

        return replaced

    def around_put(self, put: Callable[..., None]) -> Callable[..., None]:
        """The jobs of a transaction are put after its commit: a crash in between loses them."""

        @functools.wraps(put)
        def replaced(*args: Any) -> None:
            self.die_if_armed(self._reached.get(), "after")
            put(*args)

        return replaced

    def around_store(self, store: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(store)
        async def replaced(*args: Any, **kwargs: Any) -> Any:
            self.die_if_armed(self._reached.get(), "before")
            result = await store(*args, **kwargs)
            self.die_if_armed(self._reached.get(), "after")
            self._reached.set(frozenset())
            return result

        return replaced


def install(folder: Path, points: Iterable[Point], constants: Mapping[str, Any]) -> None:
    """Puts the points into this process, and gives constants of the service other values. Raises AttributeError or
    ImportError when the service has no such name."""
    faults = _Faults(folder)
    new: dict[str, Any] = dict(constants)
    for point in dict.fromkeys(points):
        new[point.function] = faults.around_call(point, new.get(point.function) or resolve_name(point.function))
    for transaction in _COMMITS:
        new[transaction] = faults.around_transaction(resolve_name(transaction))
    new[_PUTS] = faults.around_put(resolve_name(_PUTS))
    new[_COMMITS_BY_ITSELF] = faults.around_store(resolve_name(_COMMITS_BY_ITSELF))
    _replace(new)


def _replace(new_values: Mapping[str, Any]) -> None:
    """Gives functions, methods and constants new values, in each module of the service that has them by now. A number
    is replaced in its own module only, for equal numbers may be one object."""
    replaced: dict[int, tuple[Any, Any]] = {}
    for dotted_name, new in new_values.items():
        owner_name, attribute = re.split(r"[.:](?=\w+$)", dotted_name)
        owner = resolve_name(owner_name)
        old = getattr(owner, attribute)
        setattr(owner, attribute, new)
        if not isinstance(old, (int, float)):
            replaced[id(old)] = (old, new)  # with the old one, which keeps its id
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES:
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    setattr(module, attribute, replaced[id(value)][1])
