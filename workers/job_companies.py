"""The companies of a thread's job: its transactions see the data of these companies only."""

import threading
from collections.abc import Collection
from typing import Any
from uuid import UUID

import dramatiq
from dramatiq.middleware import Middleware

from domain.database.visibility import EVERYTHING, NOTHING, Visibility, of_companies
from domain.queue.dramatiq_messages import companies_of


class JobCompanies(Middleware):
    """The middleware of one broker. Dramatiq calls it before and after each job, in the thread of the job."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def before_process_message(self, broker: dramatiq.Broker, message: Any) -> None:
        companies = companies_of(message.options)
        self._thread.ids = companies or ()
        # A job of an earlier release names no company.
        self._thread.visible = EVERYTHING if companies is None else of_companies(companies)

    def after_process_message(
        self, broker: dramatiq.Broker, message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        self._thread.__dict__.clear()

    def after_skip_message(self, broker: dramatiq.Broker, message: Any) -> None:
        self._thread.__dict__.clear()

    def visible(self) -> Visibility:
        """The data that a transaction of this thread sees: none between two jobs."""
        visibility: Visibility = getattr(self._thread, "visible", NOTHING)
        return visibility

    @property
    def ids(self) -> Collection[UUID]:
        """The companies' ids; empty between two jobs, and for a job that names none."""
        ids: Collection[UUID] = getattr(self._thread, "ids", ())
        return ids
