"""The dashboards of Grafana as code: `python -m deploy.monitoring.dashboards` writes them to `grafana/dashboards`.

A test compares the files with this module, and every metric that a panel names with a running service.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "grafana" / "dashboards"

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 12, 8
_COLUMNS = 24


class Query(NamedTuple):
    """A line, or a family of lines, of a panel; `legend` names each, such as `{{queue}}`."""

    expression: str
    legend: str = ""


class Panel(NamedTuple):
    """One chart. `unit` is in Grafana's words: `s`, `reqps`, `percentunit`, `currencyUSD`, `short`, `bytes`."""

    title: str
    unit: str
    queries: Sequence[Query]
    is_number: bool = False
    """True for a panel with the newest value in large figures, a quarter as wide."""


class Dashboard(NamedTuple):
    uid: str
    title: str
    panels: Sequence[Panel]


def _by(label: str, expression: str) -> list[Query]:
    return [Query(expression, f"{{{{{label}}}}}")]


def _rate(metric: str, *labels: str, window: str = "5m") -> list[Query]:
    legend = " ".join(f"{{{{{label}}}}}" for label in labels)
    return [Query(f"sum by ({', '.join(labels)}) (rate({metric}[{window}]))", legend)]


def _quantiles(
    metric: str, *labels: str, where: str = "", quantiles: Sequence[float] = (0.5, 0.95, 0.99)
) -> list[Query]:
    names = " ".join(f"{{{{{label}}}}}" for label in labels)
    return [
        Query(
            f"histogram_quantile({q}, sum by ({', '.join(('le', *labels))}) (rate({metric}_bucket{where}[5m])))",
            f"p{q * 100:g} {names}".strip(),
        )
        for q in quantiles
    ]


def _now(title: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, unit, [Query(expression)], is_number=True)


_OLDEST = Panel("Age of the oldest job", "s", _by("queue", "fuelroute:queue_oldest_age_seconds:max"))
_WAITING = Panel("Jobs that wait", "short", _by("queue", "fuelroute:queue_jobs:max"))
_DEAD = Panel("Dead letters", "short", _by("queue", "fuelroute:dead_letters:max"))
_HELD = Panel("Held routes by reason", "short", _by("reason", "max by (reason) (fuelroute_held_routes)"))
_OVERDUE = Panel("Overdue work", "short", _by("figure", "fuelroute:overdue_items:max"))
_MESSAGES = Panel("Attempts at messages", "ops", _rate("fuelroute_messages_total", "outcome"))
_ALERTS = Panel("Alerts", "short", _by("alertname", 'count by (alertname) (ALERTS{alertstate="firing"})'))


def _pools(process: str) -> list[Panel]:
    """The connections of the processes of one kind. `process` is a regular expression."""
    of = f'* on (instance) group_left () max by (instance) (fuelroute_process{{process=~"{process}"}})'
    return [
        Panel(
            "Waits for a connection to PostgreSQL",
            "s",
            _by("pool", f"sum by (pool) (rate(fuelroute_database_pool_wait_seconds_total[5m]) {of})"),
        ),
        Panel(
            "Connections: used, waited for, refused",
            "short",
            [
                Query(
                    "sum by (pool) ((fuelroute_database_pool_connections - fuelroute_database_pool_free_connections)"
                    f" {of})",
                    "used {{pool}}",
                ),
                Query(f"sum by (pool) (fuelroute_database_pool_waiting {of})", "wait {{pool}}"),
                Query(
                    f"sum by (pool) (rate(fuelroute_database_pool_failures_total[5m]) {of})",
                    "refused a second {{pool}}",
                ),
            ],
        ),
        Panel(
            "Connections asked for, and waited for",
            "reqps",
            [
                Query(f"sum by (pool) (rate(fuelroute_database_pool_requests_total[5m]) {of})", "asked {{pool}}"),
                Query(f"sum by (pool) (rate(fuelroute_database_pool_waits_total[5m]) {of})", "waited {{pool}}"),
            ],
        ),
        Panel(
            "Health checks that succeed",
            "short",
            _by("check", f"min by (check) (fuelroute_health_check_ok {of})"),
        ),
        Panel("Processes that are ready", "short", [Query(f"sum(fuelroute_ready {of})", "ready")]),
    ]


DASHBOARDS = (
    Dashboard(
        "fuelroute-overview",
        "Fuelroute: overview",
        [
            _now("Alerts that fire", 'count(ALERTS{alertstate="firing"}) or vector(0)'),
            _now("Requests a second", "sum(fuelroute:requests:rate5m)", "reqps"),
            _now("Answered 5xx", "fuelroute:request_errors:ratio_rate5m", "percentunit"),
            _now("Slowest push of twenty", "fuelroute:push_seconds:p95_5m", "s"),
            _now("Leaders", "sum(fuelroute_scheduler_leads)"),
            _now("Processes that answer", 'sum(up{job="fuelroute"})'),
            _now("Oldest job", "max(fuelroute:queue_oldest_age_seconds:max)", "s"),
            _now("Dead letters", "sum(fuelroute:dead_letters:max)"),
            _ALERTS,
            Panel("Requests by status", "reqps", _by("status", "sum by (status) (fuelroute:requests:rate5m)")),
            _OLDEST,
            _OVERDUE,
            _HELD,
            _MESSAGES,
            Panel("Processes", "short", _by("process", "sum by (process) (fuelroute_process)")),
            Panel("Builds", "short", _by("version", "count by (version, revision) (fuelroute_build_info)")),
        ],
    ),
    Dashboard(
        "fuelroute-pipeline",
        "Fuelroute: from a push to a message",
        [
            Panel("Routes pushed", "ops", _rate("fuelroute_routes_pushed_total", "effect")),
            Panel(
                "Time of a push",
                "s",
                _quantiles("fuelroute_request_seconds", where='{path="/v1/routes", method="POST"}'),
            ),
            Panel("Routes imported", "ops", _rate("fuelroute_routes_imported_total", "status")),
            _HELD,
            Panel("Held longest", "s", _by("reason", "max by (reason) (fuelroute_held_oldest_age_seconds)")),
            Panel("Positions", "ops", _rate("fuelroute_fixes_received_total", "outcome")),
            Panel("Arrivals and departures", "ops", _rate("fuelroute_visits_total", "end")),
            Panel("Plans", "ops", _rate("fuelroute_plans_total", "kind", "outcome")),
            _MESSAGES,
            Panel("Attempts that fail", "percentunit", [Query("fuelroute:message_faults:ratio_rate5m", "messages")]),
            Panel("Attempts at webhooks", "ops", _rate("fuelroute_webhook_attempts_total", "outcome")),
            _OVERDUE,
            Panel("Overdue longest", "s", _by("figure", "max by (figure) (fuelroute_overdue_oldest_age_seconds)")),
        ],
    ),
    Dashboard(
        "fuelroute-queues",
        "Fuelroute: queues",
        [
            _OLDEST,
            _WAITING,
            Panel("Jobs in flight", "short", _by("queue", "max by (queue) (fuelroute_queue_in_flight_jobs)")),
            Panel("Workers", "short", _by("queue", "max by (queue) (fuelroute_queue_workers)")),
            Panel("Jobs that end", "ops", _by("queue", "sum by (queue) (fuelroute:jobs:rate5m)")),
            Panel("Jobs that fail", "ops", _by("queue", 'sum by (queue) (fuelroute:jobs:rate5m{outcome="failed"})')),
            Panel(
                "Age of jobs when they start",
                "s",
                _quantiles("fuelroute_job_age_seconds", "queue", quantiles=(0.5, 0.99)),
            ),
            _DEAD,
            Panel(
                "Longest backlog of one company",
                "short",
                _by("queue", "max by (queue) (fuelroute_queue_largest_backlog_jobs)"),
            ),
            Panel("Paused", "short", _by("queue", "fuelroute:queue_paused:max")),
            Panel("Age of these figures", "s", [Query("max(fuelroute_queue_measurement_age_seconds)", "queues")]),
        ],
    ),
    Dashboard(
        "fuelroute-fuel",
        "Fuelroute: fuel",
        [
            _now(
                "Gallons planned, 24 hours", 'sum(increase(fuelroute_planned_gallons_total{environment="live"}[24h]))'
            ),
            _now(
                "Planned cost, 24 hours",
                'sum(increase(fuelroute_planned_cost_dollars_total{environment="live"}[24h]))',
                "currencyUSD",
            ),
            _now(
                "Planned savings, 24 hours",
                'sum(increase(fuelroute_planned_average_cost_dollars_total{environment="live"}[24h]))'
                ' - sum(increase(fuelroute_planned_cost_dollars_total{environment="live"}[24h]))',
                "currencyUSD",
            ),
            _now("Prices too old", "fuelroute:prices_old:ratio", "percentunit"),
            Panel(
                "Planned price of a gallon",
                "currencyUSD",
                [
                    Query(
                        "sum by (environment) (increase(fuelroute_planned_cost_dollars_total[1h]))"
                        " / sum by (environment) (increase(fuelroute_planned_gallons_total[1h]))",
                        "plan {{environment}}",
                    ),
                    Query(
                        "sum by (environment) (increase(fuelroute_planned_average_cost_dollars_total[1h]))"
                        " / sum by (environment) (increase(fuelroute_planned_gallons_total[1h]))",
                        "corridor {{environment}}",
                    ),
                ],
            ),
            Panel("Plans", "ops", _rate("fuelroute_plans_total", "kind", "outcome")),
            Panel("Relaxed limits", "ops", _rate("fuelroute_plans_relaxed_total", "limit")),
            Panel("Time of a plan", "s", _quantiles("fuelroute_job_seconds", where='{job="plans.build"}')),
            Panel("Stations by the state of their price", "short", _by("price", "max by (price) (fuelroute_stations)")),
        ],
    ),
    Dashboard(
        "fuelroute-ingress",
        "Fuelroute: ingress",
        [
            Panel(
                "Requests", "reqps", [Query("sum by (method, path) (fuelroute:requests:rate5m)", "{{method}} {{path}}")]
            ),
            Panel("Time of a request", "s", _quantiles("fuelroute_request_seconds")),
            Panel("Connections", "short", [Query("sum(fuelroute_connections)", "open")]),
            Panel("Connections refused", "ops", _rate("fuelroute_connections_refused_total", "reason")),
            Panel("Refused by a rate limit", "percentunit", [Query("fuelroute:request_refusals:ratio_rate5m", "429")]),
            Panel("Items of a batch", "short", _quantiles("fuelroute_batch_items", "batch", quantiles=(0.5, 0.99))),
            Panel("Waits for a batch", "s", _quantiles("fuelroute_batch_wait_seconds", "batch", quantiles=(0.99,))),
            Panel("Request log", "ops", _rate("fuelroute_request_log_entries_total", "outcome")),
            Panel("Reads of routes, with a replica", "ops", _rate("fuelroute_route_reads_total", "server")),
            *_pools("ingress"),
        ],
    ),
    Dashboard(
        "fuelroute-console",
        "Fuelroute: console",
        [
            Panel(
                "Pages",
                "reqps",
                [
                    Query(
                        "sum by (path, status) (rate(fuelroute_request_seconds_count[5m])"
                        ' * on (instance) group_left () fuelroute_process{process="console"})',
                        "{{path}} {{status}}",
                    )
                ],
            ),
            *_pools("console"),
        ],
    ),
    Dashboard(
        "fuelroute-workers",
        "Fuelroute: workers",
        [
            Panel("Jobs", "ops", _rate("fuelroute_job_seconds_count", "job", "outcome")),
            Panel("Time of a job", "s", _quantiles("fuelroute_job_seconds", "job", quantiles=(0.5, 0.99))),
            Panel(
                "Age of a job when it starts", "s", _quantiles("fuelroute_job_age_seconds", "queue", quantiles=(0.99,))
            ),
            Panel(
                "Routes of an import, trucks of a job",
                "short",
                _quantiles("fuelroute_batch_items", "batch", where='{batch=~"imports|trucks"}', quantiles=(0.5, 0.99)),
            ),
            *_pools("workers.*"),
        ],
    ),
    Dashboard(
        "fuelroute-scheduler",
        "Fuelroute: scheduler",
        [
            Panel("Leads", "short", _by("instance", "fuelroute_scheduler_leads")),
            Panel("Runs of passes", "ops", _rate("fuelroute_pass_seconds_count", "pass", "outcome")),
            Panel("Time of a pass", "s", _quantiles("fuelroute_pass_seconds", "pass", quantiles=(0.5, 0.99))),
            Panel("Moved by passes", "ops", _rate("fuelroute_pass_moved_total", "pass", "what")),
            Panel(
                "Since the last success, in intervals",
                "short",
                _by(
                    "pass",
                    "(time() - max by (pass) (fuelroute_pass_last_success_timestamp_seconds))"
                    " / max by (pass) (fuelroute_pass_interval_seconds)",
                ),
            ),
            Panel(
                "Age of the service's figures",
                "s",
                [Query("max(fuelroute_service_measurement_age_seconds)", "service")],
            ),
            Panel("Contacts that no key opens", "short", [Query("max(fuelroute_unreadable_contacts)", "contacts")]),
            Panel(
                "Disk of the data folder",
                "bytes",
                [
                    Query("min(fuelroute_data_disk_free_bytes)", "free"),
                    Query("max(fuelroute_data_disk_size_bytes)", "size"),
                ],
            ),
            Panel(
                "PostgreSQL runs since",
                "s",
                [Query("time() - fuelroute:database_start_timestamp_seconds:max", "seconds")],
            ),
            Panel("Polls of vendors", "ops", _rate("fuelroute_connector_poll_seconds_count", "kind", "outcome")),
            Panel("Time of a poll", "s", _quantiles("fuelroute_connector_poll_seconds", "kind", quantiles=(0.5, 0.99))),
            Panel("Connectors of a process", "short", _by("instance", "fuelroute_connectors_polled")),
            *_pools("scheduler"),
        ],
    ),
)


def rendered() -> dict[str, str]:
    """The text of each file by its name."""
    return {f"{board.uid}.json": json.dumps(_document(board), indent=1) + "\n" for board in DASHBOARDS}


def _document(board: Dashboard) -> dict[str, Any]:
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["fuelroute"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "utc",
        "links": [{"type": "dashboards", "tags": ["fuelroute"], "title": "Fuelroute", "asDropdown": True}],
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": list(_placed(board.panels)),
    }


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """The panels from left to right, in rows; numbers are smaller than charts."""
    x = y = row = 0
    for number, panel in enumerate(panels, start=1):
        width, height = (_WIDTH // 4 * 2, _HEIGHT // 2) if panel.is_number else (_WIDTH, _HEIGHT)
        if x + width > _COLUMNS or (row and height != row):
            x, y = 0, y + row
        row = height
        yield _panel(number, panel, {"x": x, "y": y, "w": width, "h": height})
        x += width


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "title": panel.title,
        "type": "stat" if panel.is_number else "timeseries",
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
