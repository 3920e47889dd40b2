"""The scheduler's passes.

Each reads from the database which work is due, enqueues it, keeps nothing in memory, and returns the counts of what it
moved."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import psycopg
import redis

from domain import clock
from domain.accounts import attempts, companies, sessions
from domain.accounts.contacts import Contacts
from domain.audit.entries import forget_entries
from domain.burn.learning import Learned, TruckToLearn, give_up, learn_truck, trucks_to_learn
from domain.burn.unseen_trips import EndedTrip, note_seen, unseen_trips
from domain.compliance.recording import record_trip
from domain.database import fence
from domain.database.connections import Connection, Database
from domain.database.health import is_away, is_servers_fault, were_rows_held
from domain.database.options import HOUSEKEEPING
from domain.detention import detained
from domain.driven_lanes import learning
from domain.driven_lanes.agreement import COUNTED_DAYS
from domain.driven_lanes.snapping import UnusableFixes
from domain.housekeeping import retention
from domain.housekeeping.sealing import seal_stored
from domain.ifta.filings import compare_filing, due_filings
from domain.ifta.quarters import Quarter
from domain.messages.due_messages import due_messages
from domain.messages.read_status import read_status_jobs
from domain.notices import notice_life, noticing
from domain.notices.notice_log import forget_notices
from domain.notices.statement_notices import tell_statement
from domain.notices.subscriptions import OPERATORS
from domain.operations import import_records
from domain.operations.alerts import find_alerts, urgent_needs
from domain.operations.measurements import measure
from domain.queue.heartbeats import forget_worker_heartbeats
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import (
    JOB_ITEMS,
    JOB_TRUCKS,
    FatalJob,
    Job,
    WorkingAt,
    after_prices_job,
    build_plan_job,
    deliver_webhooks_job,
    import_due_job,
    import_routes_job,
    in_batches,
    make_menu_job,
    never_fatal,
    process_positions_job,
    review_plan_job,
    send_message_job,
    send_notice_job,
)
from domain.replay.replays import KEPT_REPLAY_DAYS, due_replays, forget_replays
from domain.requests import log as requests
from domain.roads.highways import HighwayRoads, default_highway_finder
from domain.routes.intake import holds, retiring
from domain.routes.plans import closed_stations, first_plan, menus, review_requests
from domain.routes.reading import changes, counts
from domain.routes.transitions import expire_started_routes
from domain.sandbox import drives
from domain.savings import statements
from domain.savings.driver_habits import LeftOut
from domain.savings.habit_costs import WaitingTrip, drive_waiting, leave_out, waiting_trips
from domain.savings.usual_fueling import UsualFuelings
from domain.settings import Settings
from domain.signing.signed_pdf import load_pdf_libraries
from domain.stations.closures import forget_closures
from domain.stations.held_prices import forget_held_prices
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_polling import poll_source
from domain.stations.price_runs import KEPT_RUN_DAYS, forget_runs
from domain.stations.price_sets import due_price_changes
from domain.stations.price_sources import PriceSource, due_sources, note_poll
from domain.stations.stored_prices import forget_quotes
from domain.telematics import position_partitions
from domain.telematics.tracks import lost_processing
from domain.telemetry.logs import get_logger
from domain.telemetry.metrics import UNREADABLE_CONTACTS, expose
from domain.webhooks.deliveries import due_endpoints
from domain.webhooks.delivery_log import forget_events
from scheduler.source_polls import SourcePolls

log = get_logger(__name__)


_MAX_IMPORT_JOBS = 400
"""Most jobs, of 256 routes each: as many as one worker process does until the next sweep."""

_MARK_EVERY = timedelta(minutes=1)
_PORTION = 1_000
_QUOTE_DAYS = 30
"""Days for which quotes are kept. A quote counts for a week; for some weeks more it shows how prices went."""
_CLOSURE_DAYS = 30
"""Days for which closures of stations are kept after their end."""
_POSITIONS = 20_000
_REQUESTS = 20_000
_SOURCES = 1_000
"""Most sources of price files that one pass polls."""
_POLLS_SECONDS = 20.0
"""Longest wait of a pass for the polls that it has begun; slow ones go on without it."""
_IMPORTS_AT_ONCE = 2
_DELTAS = 20_000
"""Rows of one kind in one transaction: rows to forget, or changes of counts to sum up."""
_TRUCKS = 500
"""Most trucks whose burn a pass learns, and most trips whose fuel stops one sees."""
_ROADS = 200
_ROADS_SECONDS = 10.0
"""Most roads of completed routes that a pass reads, and the time after which it begins no further one."""
_FILINGS = 1_000
_FILINGS_SECONDS = 60.0
"""Most filed quarters that a pass compares, and the time after which it begins no further one."""
_MAX_PORTIONS = 50
"""Most portions of each kind in a row, so that the scheduler can be stopped in between."""


@contextmanager
def _failing_alone(event: str, company_id: UUID) -> Iterator[None]:
    """Logs a failure of one company's work, so that it does not affect the others. Raises it if a server is away."""
    try:
        yield
    except Exception as error:
        if is_away(error):
            raise
        log.exception(event, company_id=company_id)


def _is_no_fault(error: Exception) -> bool:
    """True if another transaction held the rows of a trip or a truck: its work stays due, and the next pass does it.
    Raises the error if a server is away, or its disk is full."""
    if is_servers_fault(error):
        raise error
    if were_rows_held(error):
        log.info("passes.rows_were_locked", error=str(error))
        return True
    return False


class _Parts:
    """The parts of a pass. One that fails keeps no other from its turn; the pass as a whole fails then."""

    def __init__(self) -> None:
        self.moved: dict[str, int] = {}
        self._failures: list[Exception] = []

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if is_away(error):
                raise
            log.warning("passes.part_failed", part=name, error=str(error))
            self._failures.append(error)

    def raise_first(self) -> None:
        if self._failures:
            raise self._failures[0]


@dataclass(frozen=True, slots=True)
class Passes:
    """The scheduled work on one database and one job queue."""

    settings: Settings
    database: Database
    jobs: JobQueue
    source_polls: SourcePolls = field(default_factory=SourcePolls)
    """Checks of sources of price files that are under way: the only state kept between passes."""
    importing: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(_IMPORTS_AT_ONCE))
    working_at: WorkingAt = never_fatal
    """The work on trips and trucks that may kill the scheduler."""

    def import_pass(self) -> dict[str, int]:
        """Imports held routes that can move now, and ends those long past their start in error. It runs every five
        minutes."""
        now = clock.now()
        with self.database.transaction() as connection:
            expired = holds.expire_held_routes(connection, expiry_days=self.settings.held_route_expiry_days, now=now)
            movable = holds.routes_that_can_move(connection, now=now)
        of_company: dict[UUID, list[UUID]] = {}
        for route_id, company_id in movable.items():
            of_company.setdefault(company_id, []).append(route_id)
        for company_id, route_ids in of_company.items():
            self._import(f"pass {company_id}", route_ids, company_id)
        with self.database.transaction() as connection:
            again = retiring.match_again_lately_retired(connection, now=now)
        self._import("pass of retired", again)
        with self.database.transaction() as connection:
            retired = companies.lately_retired_companies(connection, now=now)
        for company_id in retired:
            self._in_portions(partial(retiring.close_routes, company_id=company_id, now=now, wait=False), limit=1)
        moved = {"movable": len(movable) + len(again), "expired": expired}
        log.info("passes.import_pass_ended", **moved)
        return moved

    def _import(self, key: str, route_ids: Sequence[UUID], company_id: UUID | None = None) -> None:
        """Enqueues the imports at once, so that a later failure of the pass does not hold them up."""
        self.jobs.put_once(
            *(
                import_routes_job(batch, company_id, key=f"{key} {number}")
                for number, batch in enumerate(in_batches(route_ids))
            )
        )

    def sweep(self) -> dict[str, int]:
        """Enqueues work whose job was lost, or whose next attempt is due, and sums up the changes of counts. It runs
        every few seconds. A job that waits in its queue or runs is not enqueued again, however long it has been due."""
        now = clock.now()
        with self.database.transaction() as connection:
            pending = holds.count_due_imports(connection, now=now, maximum=_MAX_IMPORT_JOBS * JOB_ITEMS)
            tracks = lost_processing(connection, now=now)
            planless = first_plan.due_plans(connection, now=now)
            priced = due_price_changes(connection, now=now)
            doubtful = review_requests.due_reviews(connection, now=now)
            without_menu = menus.due_menus(connection, now=now)
            unsent = due_messages(connection, now=now)
            changes.mark(connection, every=_MARK_EVERY)
            endpoints = due_endpoints(connection, now=now)
            replays = due_replays(connection, now=now)
        jobs: list[Job] = [
            import_due_job(company_id, portion)
            for company_id, routes in pending.items()
            for portion in range(-(-routes // JOB_ITEMS))
        ]
        jobs += [
            process_positions_job(environment, batch, company_id, key=f"sweep {environment} {company_id} {number}")
            for (environment, company_id), vehicles in tracks.items()
            for number, batch in enumerate(in_batches(vehicles, JOB_TRUCKS))
        ]
        jobs += (build_plan_job(route_id, company_id) for route_id, company_id in planless.items())
        jobs += map(after_prices_job, priced)
        jobs += (review_plan_job(route_id, company_id) for route_id, company_id in doubtful.items())
        jobs += (make_menu_job(plan_id, company_id) for plan_id, company_id in without_menu.items())
        jobs += (send_message_job(message_id, company_id) for message_id, company_id in unsent.items())
        jobs += (deliver_webhooks_job(endpoint_id, company_id) for endpoint_id, company_id in endpoints.items())
        jobs += replays
        moved = {
            "imports": sum(pending.values()),
            "vehicles": sum(map(len, tracks.values())),
            "plans": len(planless),
            "price_changes": len(priced),
            "reviews": len(doubtful),
            "menus": len(without_menu),
            "messages": len(unsent),
            "webhook_endpoints": len(endpoints),
            "replays": len(replays),
        }
        if jobs:
            self.jobs.put_once(*jobs)
            log.info("passes.work_enqueued", **moved)
        with self.database.transaction() as connection:
            moved["closed_stations"] = closed_stations.make_new_plans(connection, None, now=now)
        self._in_portions(partial(counts.fold, limit=_DELTAS), _DELTAS)
        return moved

    def autodrive(self) -> dict[str, int]:
        """Drives routes of the sandbox: begins drives, and posts the fixes that are due. It runs every few seconds.
        Each company has a transaction of its own, so that a failure of one does not affect the others."""
        now = clock.now()
        early, limit = timedelta(hours=self.settings.early_arrival_hours), self.settings.autodrive_routes
        with self.database.transaction() as connection:
            begun = drives.begin_drives(connection, early=early, limit=limit, now=now)
        with self.database.transaction() as connection:
            due = drives.due_drives(connection, limit=limit, now=now)
        radius = self.settings.arrival_radius_meters
        for company_id, route_ids in due.items():
            with _failing_alone("passes.drives_failed", company_id), self.database.transaction() as connection:
                drives.drive_on(connection, company_id, route_ids, near_meters=radius, early=early, now=now)
        return {"drives_begun": begun}

    def find_detained(self) -> dict[str, int]:
        """Finds the trucks that are still at a stop whose free time has ended. It runs every minute."""
        radius = self.settings.arrival_radius_meters
        with self.database.transaction() as connection:
            return {"detained": detained.find_detained(connection, radius_meters=radius, now=clock.now())}

    def compare_habits(self) -> dict[str, int]:
        """Drives the habits of fueling over the trips of plans that drivers have. It runs every minute, and takes a few
        seconds at most; the rest waits for the next minute. A failure of one trip does not affect the others."""
        started, now = time.monotonic(), clock.now()
        moved = {"trips_compared": 0, "trips_left_out": 0}
        with self.database.transaction() as connection:
            trips = waiting_trips(connection, limit=_TRUCKS)
        fuelings = UsualFuelings()
        for trip in trips:
            if time.monotonic() - started > _ROADS_SECONDS:
                break
            moved["trips_compared" if self._compare_habits(trip, fuelings, now) else "trips_left_out"] += 1
        return moved

    def _compare_habits(self, trip: WaitingTrip, fuelings: UsualFuelings, now: datetime) -> bool:
        """Drive the habits over one trip. If that fails by a fault of ours, the trip waits no longer."""
        try:
            with self._computing(f"habits {trip.route_id}"), self.database.transaction() as connection:
                return drive_waiting(connection, trip, fuelings, now=now)
        except Exception as error:
            if _is_no_fault(error):
                return False
            log.exception("habits.failed", route_id=trip.route_id, company_id=trip.company_id)
        with self.database.transaction() as connection:
            leave_out(connection, trip, LeftOut.FAILED, now=now)
        return False

    def make_statements(self) -> dict[str, int]:
        """Makes the statements of savings whose day has come, and tells people of them. It runs every ten minutes. Each
        has a transaction of its own, so that a failure of one does not affect the others."""
        moved = {"statements": 0, "notices": 0}
        with self.database.transaction() as connection:
            due = list(statements.due_statements(connection, now=clock.now()))
        for one in due:
            with _failing_alone("passes.statements_failed", one.company_id), suppress(statements.NoStatement):
                moved["notices"] += self._make_statement(one)
                moved["statements"] += 1
        return moved

    def _make_statement(self, due: statements.DueStatement) -> int:
        contacts, now = Contacts.of(self.settings), clock.now()
        with self.database.transaction() as connection:
            statements.wait_for_habits(connection, due.company_id, due.month)
        load_pdf_libraries()  # imports of the company wait for the transaction that makes the statement
        with self.database.transaction() as connection:
            made = statements.make_statement(
                connection, due.company_id, due.month, statements.ON_ITS_DAY, contacts=contacts, now=now
            )
            return tell_statement(connection, made, console=self.settings.console_address(), now=now)

    def compare_filings(self) -> dict[str, int]:
        """Compares quarters of fuel tax that were filed with what is known now. It runs every ten minutes, compares
        each once a day, and begins none after a minute; the rest waits for the next time. Each has a transaction of its
        own, so that a failure of one does not affect the others."""
        started, now = time.monotonic(), clock.now()
        moved = {"quarters_compared": 0}
        with self.database.transaction() as connection:
            filings = due_filings(connection, now=now, limit=_FILINGS)
        for due in filings:
            if time.monotonic() - started > _FILINGS_SECONDS:
                break
            with _failing_alone("passes.filing_failed", due.company_id), self.database.transaction() as connection:
                kept, quarter = self.settings.fill_retention_days, Quarter.parse(due.quarter)
                compare_filing(connection, due.company_id, quarter, fills_kept_days=kept, now=now)
                moved["quarters_compared"] += 1
        return moved

    def tell_people(self) -> dict[str, int]:
        """Compares the needs of companies with what people were told, and enqueues the notices that are due. It runs
        every minute. Each company has a transaction of its own, so that a failure of one does not affect the others."""
        with self.database.transaction() as connection:
            company_ids = noticing.companies_to_tell(connection)
        moved = {"needs_opened": 0, "needs_ended": 0, "notices": 0}
        console, end_after = self.settings.console_address(), timedelta(seconds=self.settings.notices_end_seconds)
        for company_id in company_ids:
            told = noticing.Told()
            with _failing_alone("passes.notices_failed", company_id), self.database.transaction() as connection:
                told = noticing.tell_company(
                    connection, company_id, console=console, end_after=end_after, now=clock.now()
                )
            self.jobs.put_once(*(send_notice_job(notice_id, company_id) for notice_id in told.due))
            for name, count in zip(moved, (told.opened, told.ended, len(told.due)), strict=True):
                moved[name] += count
        return moved

    def ask_read_status(self) -> dict[str, int]:
        """Enqueues a job for each company with messages in the cab that drivers may not have read yet. It runs every
        minute."""
        with self.database.transaction() as connection:
            jobs = read_status_jobs(connection, now=clock.now())
        self.jobs.put_once(*jobs)
        return {"companies": len(jobs)}

    def tell_operators(self) -> dict[str, int]:
        """Tells operators what the page Queues calls urgent. It runs every minute, and sends without the queue, which
        may be what is in trouble."""
        moved = {"needs_opened": 0, "needs_ended": 0, "notices": 0}
        now = clock.now()
        with self.database.transaction() as connection:
            if not noticing.are_operators_told(connection):
                return moved
            urgent = urgent_needs(find_alerts(measure(connection, self.jobs.client, now=now), now=now))
        with self.database.transaction() as connection:
            told = noticing.tell_operators(
                connection,
                urgent,
                console=self.settings.console_address(),
                end_after=timedelta(seconds=self.settings.notices_end_seconds),
                now=now,
            )
        for notice_id in told.due:
            self._send(notice_id)
        return {**moved, "needs_opened": told.opened, "needs_ended": told.ended, "notices": len(told.due)}

    def _send(self, notice_id: UUID) -> None:
        with self.database.transaction() as connection:
            claimed = notice_life.claim_notice(
                connection, OPERATORS, notice_id, settings=self.settings, now=clock.now()
            )
        if claimed is not None:
            fault = notice_life.hand_over_notice(claimed, self.settings)
            with self.database.transaction() as connection:
                status = notice_life.settle_notice(connection, claimed, fault, now=clock.now())
            log.info("notices.settled", notice_id=notice_id, status=status)

    def price_sources(self) -> dict[str, int]:
        """Takes price files from the sources of companies, and applies prices whose time has come. It runs every
        minute. Each file has a transaction of its own, so that a failure of one does not affect the others."""
        now = clock.now()
        with self.database.transaction() as connection:
            # Twice the interval, since the pass before may have been late.
            since = now - timedelta(seconds=2 * self.settings.price_sources_seconds)
            review_requests.apply_due_prices(connection, since=since, now=now)
        with self.database.transaction() as connection:
            due = due_sources(connection, now=now, limit=_SOURCES)
        files = self.source_polls.run(due, self._poll_source, seconds=_POLLS_SECONDS)
        for source in self.source_polls.newly_stuck():
            self._note_fault(source, "it has not answered for minutes: is the disk of its folder away?")
        return {"price_files": files}

    def _poll_source(self, source: PriceSource) -> int:
        """Checks one source, and returns how many files came. Runs in a thread of its own, and raises nothing."""
        try:
            poll = poll_source(
                self._begin_import,
                source,
                contacts=Contacts.of(self.settings),
                limits=OutlierLimits.of(self.settings),
                now=clock.now(),
            )
        except Exception as error:
            log.exception("passes.price_source_failed", source_id=source.id, company_id=source.company_id)
            if not is_servers_fault(error):
                self._note_fault(source, "something failed on our side")
            return 0
        return poll.files

    @contextmanager
    def _begin_import(self) -> Iterator[Connection]:
        """A transaction of a poll. Few run at a time: files that wait for one another would hold the connections of
        the other passes."""
        with self.importing, self.database.transaction() as connection:
            yield connection

    def _note_fault(self, source: PriceSource, fault: str) -> None:
        try:
            with self.database.transaction() as connection:
                note_poll(connection, source, fault=fault, seen=None, failed=True, now=clock.now())
        except psycopg.Error:
            log.warning("passes.price_source_fault_not_noted", source_id=source.id, company_id=source.company_id)

    @contextmanager
    def _computing(self, job: str) -> Iterator[None]:
        """The computing about a trip or a truck. Raises FatalJob."""
        with self.working_at(job) as is_fatal:
            if is_fatal:
                raise FatalJob(job)
            yield

    def learn_roads(self) -> dict[str, int]:
        """Reads the roads of completed routes from their positions. It runs every minute, and takes a few seconds at
        most; the rest waits for the next minute. Each route is read by itself, so that a failure of one does not affect
        the others."""
        started = time.monotonic()
        moved = {"roads_learned": 0, "roads_refused": 0}
        with self.database.transaction() as connection:
            route_ids = learning.waiting_roads(connection, now=clock.now(), limit=_ROADS)
        for route_id in route_ids:
            if time.monotonic() - started > _ROADS_SECONDS:
                break
            moved["roads_learned" if self._learn_road(route_id) else "roads_refused"] += 1
        return moved

    def _learn_road(self, route_id: UUID) -> bool:
        """Read and store the road of a completed route. Returns False if it cannot be believed, or not now."""
        try:
            with self.database.transaction() as connection:
                trip = learning.read_trip(connection, route_id)
            if trip is None:
                return False
            with self._computing(f"driven_roads {route_id}"):
                road = learning.road_of(trip, default_highway_finder(), HighwayRoads())
            with self.database.transaction() as connection:
                return learning.store_road(connection, trip, road)
        except UnusableFixes as error:
            log.info("driven_roads.refused", route_id=route_id, reason=error.reason)
        except Exception as error:
            if _is_no_fault(error):
                return False
            log.exception("driven_roads.failed", route_id=route_id)
        with self.database.transaction() as connection:
            learning.drop_waiting(connection, route_id)
        return False

    def learn_burn(self) -> dict[str, int]:
        """Measures the burn of completed trips, truck by truck. It runs every minute, and takes a few seconds at most;
        the rest waits for the next minute. A failure of one truck does not affect the others."""
        started, now = time.monotonic(), clock.now()
        moved = {"trucks_learned": 0, "trips_believed": 0, "trips_doubted": 0}
        with self.database.transaction() as connection:
            trucks = trucks_to_learn(connection, now=now, limit=_TRUCKS)
        for truck in trucks:
            if time.monotonic() - started > _ROADS_SECONDS:
                break
            learned = self._learn_burn_of(truck, now)
            if learned is not None:
                moved["trucks_learned"] += 1
                moved["trips_believed"] += learned.believed
                moved["trips_doubted"] += learned.doubted
        return moved

    def _learn_burn_of(self, truck: TruckToLearn, now: datetime) -> Learned | None:
        """Measure the trips of a truck. None if it fails; by a fault of ours the truck then waits no longer."""
        try:
            with self._computing(f"burn {truck.vehicle_id}"), self.database.transaction() as connection:
                return learn_truck(connection, truck, now=now)
        except Exception as error:
            if _is_no_fault(error):
                return None
            log.exception("burn.failed", vehicle_id=truck.vehicle_id, company_id=truck.company_id)
        with self.database.transaction() as connection:
            give_up(connection, truck, now=now)
        return None

    def see_fuel_stops(self) -> dict[str, int]:
        """Compares the fixes of completed trips with their fuel stops. It runs every minute, and takes a few seconds at
        most; the rest waits for the next minute. A failure of one trip does not affect the others."""
        started, now = time.monotonic(), clock.now()
        moved = {"trips_seen": 0, "fuel_stops_seen": 0}
        with self.database.transaction() as connection:
            trips = unseen_trips(connection, now=now, limit=_TRUCKS)
        for trip in trips:
            if time.monotonic() - started > _ROADS_SECONDS:
                break
            moved["trips_seen"] += 1
            moved["fuel_stops_seen"] += self._see_trip(trip, now)
        return moved

    def _see_trip(self, trip: EndedTrip, now: datetime) -> int:
        """Compare a trip's fixes with its fuel stops. If it fails by a fault of ours, the trip waits no longer."""
        try:
            with self._computing(f"fuel_stops {trip.route_id}"), self.database.transaction() as connection:
                return record_trip(connection, trip, now=now)
        except Exception as error:
            if _is_no_fault(error):
                return 0
            log.exception("compliance.failed", route_id=trip.route_id, company_id=trip.company_id)
        with self.database.transaction() as connection:
            note_seen(connection, [trip.route_id], now=now)
        return 0

    def housekeeping(self) -> dict[str, int]:
        """Frees the trucks of started routes without a sign of life, forgets old data, and compares the counts of
        routes with the routes. It runs every hour, but not while a company is moved from or to this cell: both cells
        must have the same old data to be compared."""
        now = clock.now()
        with self.database.transaction() as connection:
            if fence.keeps_housekeeping_waiting(connection, now=now):
                log.info("passes.housekeeping_waits_for_move")
                return {}
        parts = _Parts()
        with parts.one("expired routes"), self.database.transaction() as connection:
            parts.moved["routes_expired"] = expire_started_routes(
                connection, expiry_days=self.settings.active_route_expiry_days, now=now
            )
        self._forget(parts, now)
        with parts.one("marks"), self.database.transaction() as connection:
            changes.forget_marks(connection, now=now)
        with suppress(redis.RedisError):  # the next hour does it
            forget_worker_heartbeats(self.jobs.client, now=now)
        with parts.one("contacts"), self.database.transaction() as connection:
            sealed, unreadable = seal_stored(connection, Contacts.of(self.settings))
            parts.moved["contacts_sealed"] = sealed
            expose(UNREADABLE_CONTACTS)
            UNREADABLE_CONTACTS.set(unreadable)
            if unreadable:
                log.error("contacts.unreadable", contacts=unreadable)
        with parts.one("counts"), self.database.transaction(limits=HOUSEKEEPING) as connection:
            for wrong in counts.reconcile(connection):
                log.error("counts.corrected", **wrong._asdict())
        # These come last, since they fail while another transaction reads the whole table.
        with parts.one("days of positions"), self.database.transaction(limits=HOUSEKEEPING) as connection:
            parts.moved["position_days_removed"] = position_partitions.maintain_partitions(
                connection, retention_days=self.settings.position_retention_days, now=now
            )
        with parts.one("days of requests"), self.database.transaction(limits=HOUSEKEEPING) as connection:
            parts.moved["request_days_removed"] = requests.maintain_request_partitions(
                connection, days=self.settings.request_log_days, now=now
            )
        log.info("passes.housekeeping_ended", **parts.moved)
        parts.raise_first()
        return parts.moved

    def _forget(self, parts: "_Parts", now: datetime) -> None:
        """Forgets old data of each kind in portions, each in a transaction of its own. What is left waits for the next
        hour."""
        settings = self.settings
        kinds: tuple[tuple[str, Callable[..., int], float | None, int], ...] = (
            ("positions", position_partitions.forget_positions, settings.position_retention_days, _POSITIONS),
            ("evidence", retention.forget_evidence, settings.evidence_retention_days, _PORTION),
            ("places", retention.forget_places, settings.evidence_retention_days, _PORTION),
            ("explanations", retention.forget_explanations, settings.explanation_retention_days, _PORTION),
            ("trip_inputs", retention.forget_trip_inputs, settings.trip_inputs_retention_days, _PORTION),
            ("replays", forget_replays, KEPT_REPLAY_DAYS, _PORTION),
            ("texts", retention.forget_texts, settings.message_text_retention_days, _PORTION),
            ("event_details", retention.forget_event_details, settings.message_text_retention_days, _PORTION),
            ("driver_links", retention.forget_links, 0, _PORTION),
            ("routes", retention.forget_routes, settings.route_retention_days, _PORTION),
            ("fills", retention.forget_fills, settings.fill_retention_days, _PORTION),
            (
                "requests",
                partial(requests.forget_requests, rows_per_key=settings.request_log_rows),
                settings.request_log_days,
                _REQUESTS,
            ),
            ("driven_roads", learning.forget_roads, COUNTED_DAYS, _PORTION),
            ("notices", forget_notices, settings.audit_retention_days, _PORTION),
            ("webhook_events", forget_events, settings.webhook_retention_days, _PORTION),
            ("sessions", sessions.forget_sessions, sessions.LONGEST_DAYS, _PORTION),
            ("audit_entries", forget_entries, settings.audit_retention_days, _PORTION),
            ("sign_in_attempts", attempts.forget_attempts, 0, _PORTION),
            ("quotes", forget_quotes, _QUOTE_DAYS, _PORTION),
            ("closures", forget_closures, _CLOSURE_DAYS, _PORTION),
            ("held_prices", forget_held_prices, KEPT_RUN_DAYS, _PORTION),
            ("price_runs", forget_runs, KEPT_RUN_DAYS, _PORTION),
            ("csv_imports", import_records.forget_imports, import_records.KEPT_DAYS, _PORTION),
        )
        for kind, forget, days, limit in kinds:
            if days is not None:
                with parts.one(kind):
                    work = partial(forget, days=days, now=now, limit=limit)
                    parts.moved[f"{kind}_forgotten"] = self._in_portions(work, limit)

    def _in_portions(self, work: Callable[[Connection], int], limit: int) -> int:
        done = 0
        for _ in range(_MAX_PORTIONS):
            with self.database.transaction() as connection:
                portion = work(connection)
            done += portion
            if portion < limit:
                break
        return done
