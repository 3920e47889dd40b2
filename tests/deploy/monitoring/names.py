"""The names of metrics and labels: in the table of the README, in the code, in the rules and in the panels."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml
from prometheus_client.metrics import MetricWrapperBase

from deploy.monitoring.dashboards import DASHBOARDS
from domain.telemetry import metrics, metrics_at_scrape
from domain.telemetry.health import Health

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
RULES = sorted((MONITORING / "prometheus" / "rules").glob("*.yml"))

_NAME = re.compile(r"\bfuelroute_\w+")
_SELECTOR = re.compile(r"\b(fuelroute_\w+)\{([^}]*)\}")


class Documented(NamedTuple):
    """A row of the table in the README, without its words."""

    name: str
    kind: str
    labels: tuple[str, ...]


@cache
def documented() -> list[Documented]:
    rows = re.findall(r"^\| `(fuelroute_\w+)` \| (\w+) \| (.*?) \|", (MONITORING / "README.md").read_text(), re.M)
    return [Documented(name, kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows]


def declared() -> list[Documented]:
    """Every metric that the code has."""
    plain = [
        Documented(_full(one._name, str(one._type)), str(one._type), tuple(one._labelnames))
        for one in vars(metrics).values()
        if isinstance(one, MetricWrapperBase)
    ]
    collectors = (metrics_at_scrape.PoolMetrics(), metrics_at_scrape.HealthMetrics(Health("a test")))
    return plain + [
        Documented(_full(family.name, family.type), family.type, tuple(family._labelnames))  # type: ignore[attr-defined]
        for collector in collectors
        for family in collector.collect()
    ]


def _full(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def series(one: Documented) -> set[str]:
    """The names of the metric's series in Prometheus."""
    return {f"{one.name}{end}" for end in ("_bucket", "_count", "_sum")} if one.kind == "histogram" else {one.name}


@cache
def rules() -> list[dict[str, object]]:
    return [rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, object]]:
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    return {str(rule["record"]) for rule in rules() if "record" in rule}


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, with the rule or the panel that has it."""
    for rule in rules():
        yield str(rule.get("alert") or rule.get("record")), str(rule["expr"])
    for board in DASHBOARDS:
        for panel in board.panels:
            for query in panel.queries:
                yield f"{board.title}, {panel.title}", query.expression


def named(expression: str) -> set[str]:
    """The series of ours that an expression names, without those that rules record."""
    return set(_NAME.findall(expression))


def records_named(expression: str) -> set[str]:
    return set(re.findall(r"\bfuelroute:[\w:]+", expression))


def labels_named(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The series with a selector, and the labels in it."""
    for name, selector in _SELECTOR.findall(expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]", selector))
