"""The metrics of every process, for Prometheus. Labels are few and hold no ids. Commands do not load this module."""

from prometheus_client import Counter, Gauge, Histogram

ROUTES_PUSHED = Counter("fuelroute_routes_pushed_total", "Routes pushed, by effect", ["effect"])
ROUTES_IMPORTED = Counter("fuelroute_routes_imported_total", "Import outcomes, by status", ["status"])
FIXES_RECEIVED = Counter("fuelroute_fixes_received_total", "GPS fixes received, by what became of them", ["outcome"])
PLANS_MADE = Counter("fuelroute_plans_total", "Plans, by outcome", ["outcome"])
MESSAGES = Counter("fuelroute_messages_total", "Messages to drivers, by outcome", ["outcome"])
WEBHOOKS = Counter("fuelroute_webhook_attempts_total", "Attempts to deliver webhooks, by outcome", ["outcome"])
REQUESTS = Histogram(
    "fuelroute_request_seconds",
    "HTTP requests",
    ["method", "path", "status"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
REQUEST_LOG = Counter(
    "fuelroute_request_log_entries_total", "Entries of the request log, by what became of them", ["outcome"]
)
ROUTE_READS = Counter(
    "fuelroute_route_reads_total", "Reads of routes where there is a replica, by the server that answered", ["server"]
)
CONNECTIONS = Gauge("fuelroute_connections", "Open connections of an ingress process")
CONNECTIONS_REFUSED = Counter("fuelroute_connections_refused_total", "Connections ended by a bound", ["reason"])
QUEUE_JOBS = Gauge("fuelroute_queue_jobs", "Jobs that wait in a queue", ["queue"])
DEAD_LETTERS = Gauge("fuelroute_dead_letters", "Jobs that failed for good and are kept for people", ["queue"])
QUEUE_AGE = Gauge("fuelroute_queue_measurement_age_seconds", "How old the gauges of the queues are")
JOBS = Histogram(
    "fuelroute_job_seconds",
    "Background jobs",
    ["job", "outcome"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 30),
)
