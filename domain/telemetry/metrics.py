"""The metrics of every process, for Prometheus. Labels are few, and hold no ids and no companies. Commands do not load
this module.

Counters and histograms of all processes of a kind may be summed up. A gauge of the whole service is set by several
processes or by the leading scheduler alone: take its maximum. `deploy/monitoring/README.md` lists every metric.
"""

from collections.abc import Mapping

from prometheus_client import REGISTRY, Counter, Gauge, Histogram

_QUICK = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_JOBS = (*_QUICK, 30)
_AGES = (0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800)
_PASSES = (0.01, 0.05, 0.2, 1, 5, 20, 60, 300)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

PROCESS = Gauge("fuelroute_process", "1: which process these metrics are of", ["process"])
BUILD = Gauge(
    "fuelroute_build_info", "1: the build, and the revision of the schema that it needs", ["version", "revision"]
)

# requests
ROUTES_PUSHED = Counter("fuelroute_routes_pushed_total", "Routes pushed, by effect", ["effect"])
FIXES_RECEIVED = Counter("fuelroute_fixes_received_total", "GPS fixes received, by what became of them", ["outcome"])
REQUESTS = Histogram("fuelroute_request_seconds", "HTTP requests", ["method", "path", "status"], buckets=_QUICK)
REQUEST_LOG = Counter(
    "fuelroute_request_log_entries_total", "Entries of the request log, by what became of them", ["outcome"]
)
ROUTE_READS = Counter(
    "fuelroute_route_reads_total", "Reads of routes where there is a replica, by the server that answered", ["server"]
)
CONNECTIONS = Gauge("fuelroute_connections", "Open connections of an ingress process", registry=None)
CONNECTIONS_REFUSED = Counter("fuelroute_connections_refused_total", "Connections ended by a bound", ["reason"])
BATCH_ITEMS = Histogram("fuelroute_batch_items", "Items of a batch", ["batch"], buckets=_ITEMS)
BATCH_WAITS = Histogram(
    "fuelroute_batch_wait_seconds", "The longest wait of an item for its batch to begin", ["batch"], buckets=_QUICK
)

# queues
QUEUE_JOBS = Gauge("fuelroute_queue_jobs", "Jobs that wait in a queue", ["queue"])
QUEUE_IN_FLIGHT = Gauge("fuelroute_queue_in_flight_jobs", "Jobs that workers have taken and not finished", ["queue"])
QUEUE_OLDEST = Gauge(
    "fuelroute_queue_oldest_age_seconds",
    "Age of the oldest job that waits or is in flight; 0: there is none",
    ["queue"],
)
QUEUE_WORKERS = Gauge("fuelroute_queue_workers", "Worker processes that serve a queue, by their heartbeats", ["queue"])
DEAD_LETTERS = Gauge("fuelroute_dead_letters", "Jobs that failed for good and are kept for people", ["queue"])
QUEUE_AGE = Gauge("fuelroute_queue_measurement_age_seconds", "How old the gauges of the queues are", registry=None)

# workers
JOBS = Histogram("fuelroute_job_seconds", "Background jobs", ["queue", "job", "outcome"], buckets=_JOBS)
JOB_AGES = Histogram("fuelroute_job_age_seconds", "Age of a job when it starts", ["queue"], buckets=_AGES)
ROUTES_IMPORTED = Counter("fuelroute_routes_imported_total", "Import outcomes, by status", ["status"])
VISITS = Counter("fuelroute_visits_total", "Arrivals at stops and departures, as GPS showed them", ["end"])
PLANS_MADE = Counter("fuelroute_plans_total", "Plans, by kind and outcome", ["kind", "outcome"])
PLANS_RELAXED = Counter("fuelroute_plans_relaxed_total", "Limits that plans had to relax", ["limit"])
PLANNED_GALLONS = Counter("fuelroute_planned_gallons_total", "Gallons of first plans", ["environment"])
PLANNED_COST = Counter("fuelroute_planned_cost_dollars_total", "Cost of first plans", ["environment"])
PLANNED_AVERAGE_COST = Counter(
    "fuelroute_planned_average_cost_dollars_total",
    "Cost of the gallons of first plans at the average price of their corridors",
    ["environment"],
)
MESSAGES = Counter("fuelroute_messages_total", "Attempts at messages to drivers, by the message's status", ["outcome"])
WEBHOOKS = Counter("fuelroute_webhook_attempts_total", "Attempts to deliver webhooks, by outcome", ["outcome"])

# connectors
CONNECTOR_POLLS = Histogram(
    "fuelroute_connector_poll_seconds", "Polls of vendors of telematics", ["kind", "outcome"], buckets=_PASSES
)
CONNECTORS_POLLED = Gauge("fuelroute_connectors_polled", "Connectors that this process polls", registry=None)

# the leading scheduler
LEADS = Gauge("fuelroute_scheduler_leads", "1: this scheduler leads; 0: it stands by", registry=None)
PASSES = Histogram("fuelroute_pass_seconds", "Runs of the scheduler's passes", ["pass", "outcome"], buckets=_PASSES)
PASS_MOVED = Counter("fuelroute_pass_moved_total", "Things that passes moved", ["pass", "what"])
PASS_SUCCEEDED = Gauge("fuelroute_pass_last_success_timestamp_seconds", "When a pass last ended well", ["pass"])
PASS_EVERY = Gauge("fuelroute_pass_interval_seconds", "How often a pass is due", ["pass"])
UNREADABLE_CONTACTS = Gauge(
    "fuelroute_unreadable_contacts",
    "Contacts and message URLs that no configured key opens, at the last housekeeping",
    registry=None,
)
HELD_ROUTES = Gauge("fuelroute_held_routes", "Held routes, up to 10,000 of a status", ["reason"])
HELD_OLDEST = Gauge("fuelroute_held_oldest_age_seconds", "Age of the route that has been held longest", ["reason"])
OVERDUE = Gauge("fuelroute_overdue_items", "Overdue work, up to 10,000, as `fuelroute queues` shows it", ["figure"])
OVERDUE_OLDEST = Gauge("fuelroute_overdue_oldest_age_seconds", "How long the first one has been overdue", ["figure"])
STATIONS_BY_PRICE = Gauge("fuelroute_stations", "Stations in service, by the state of their price", ["price"])
QUEUE_LARGEST_BACKLOG = Gauge(
    "fuelroute_queue_largest_backlog_jobs", "Jobs of the company with the most in a queue", ["queue"]
)
QUEUE_PAUSED = Gauge("fuelroute_queue_paused", "1: a person has paused the queue", ["queue"])
DATABASE_STARTED = Gauge(
    "fuelroute_database_start_timestamp_seconds", "When the PostgreSQL that leads was started", registry=None
)
DATABASE_TAKES_CHANGES = Gauge(
    "fuelroute_database_takes_changes", "0: PostgreSQL is read-only, or a standby", registry=None
)
ARCHIVE_WORKS = Gauge(
    "fuelroute_archive_works", "0: PostgreSQL's log is not archived, though it should be", registry=None
)
ARCHIVE_BEHIND = Gauge(
    "fuelroute_archive_behind_bytes", "Bytes of PostgreSQL's log that are not archived yet", registry=None
)
NEWEST_BACKUP = Gauge(
    "fuelroute_backup_timestamp_seconds",
    "When the newest backup of the embedded database was made; 0: there is none",
    registry=None,
)
CERTIFICATE_ENDS = Gauge(
    "fuelroute_certificate_end_timestamp_seconds",
    "When a certificate of a server, of a public address or in a file runs out",
    ["certificate"],
)
DISK_FREE = Gauge(
    "fuelroute_data_disk_free_bytes", "Free space where the data folder lies, if this machine has one", registry=None
)
DISK_SIZE = Gauge("fuelroute_data_disk_size_bytes", "Size of the file system where the data folder lies", registry=None)
SERVICE_AGE = Gauge(
    "fuelroute_service_measurement_age_seconds", "How old the leading scheduler's gauges are", registry=None
)

_exposed: set[Gauge] = set()


def expose(*gauges: Gauge) -> None:
    """Serves gauges without labels from this process. In processes that do not call it they would show 0."""
    for gauge in gauges:
        if gauge not in _exposed:
            _exposed.add(gauge)
            REGISTRY.register(gauge)


def count_fixes(stored: int, left_out: Mapping[str, int]) -> None:
    """Counts GPS fixes that were received: the stored ones, and the others by what became of them."""
    for outcome, count in {"stored": stored, **left_out}.items():
        FIXES_RECEIVED.labels(outcome).inc(count)
