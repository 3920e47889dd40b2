"""Metrics that are looked up when Prometheus asks for them: the pools of connections and the health checks."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from domain.database.pools import pool_stats
from domain.telemetry.health import Health

_MILLISECONDS = "requests_wait_ms"
_POOL_GAUGES = {
    "pool_size": ("fuelroute_database_pool_connections", "Connections of the pools"),
    "pool_available": ("fuelroute_database_pool_free_connections", "Connections that nobody uses"),
    "requests_waiting": ("fuelroute_database_pool_waiting", "Callers that wait for a connection"),
}
_POOL_COUNTERS = {
    "requests_num": ("fuelroute_database_pool_requests", "Connections that were asked for"),
    "requests_queued": ("fuelroute_database_pool_waits", "Callers that had to wait for a connection"),
    _MILLISECONDS: ("fuelroute_database_pool_wait_seconds", "Time that callers waited for a connection"),
    "requests_errors": ("fuelroute_database_pool_failures", "Callers that got no connection"),
}


class PoolMetrics(Collector):
    """The pools' own counts, by psycopg: borrowing a connection costs nothing more."""

    def collect(self) -> Iterable[Metric]:
        stats = pool_stats()
        gauges = {key: GaugeMetricFamily(*about, labels=["pool"]) for key, about in _POOL_GAUGES.items()}
        counters = {key: CounterMetricFamily(*about, labels=["pool"]) for key, about in _POOL_COUNTERS.items()}
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {**gauges, **counters}
        for key, family in families.items():
            for use, figures in stats.items():
                family.add_metric([use], figures[key] / (1000 if key == _MILLISECONDS else 1))
        return families.values()


class HealthMetrics(Collector):
    """The results of the checks behind `/readyz`. Each server is asked at most once a second, however many ask."""

    def __init__(self, health: Health) -> None:
        self._health = health

    def describe(self) -> Iterable[Metric]:
        return _health_families()  # the registry must not ask the servers before the process is ready

    def collect(self) -> Iterable[Metric]:
        ready, checks = _health_families()
        findings = self._health.findings()
        ready.add_metric([], all(one.ok or not one.needed for one in findings.values()))
        for name, one in findings.items():
            checks.add_metric([name], one.ok)
        return [ready, checks]


def _health_families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    return (
        GaugeMetricFamily("fuelroute_ready", "1: the process is ready for work, as /readyz says"),
        GaugeMetricFamily("fuelroute_health_check_ok", "1: the check succeeds, as in /readyz", labels=["check"]),
    )


def registry_of(health: Health) -> CollectorRegistry:
    """The process's metrics, together with those of this module."""
    registry = CollectorRegistry()
    for collector in (REGISTRY, PoolMetrics(), HealthMetrics(health)):
        registry.register(collector)
    return registry
