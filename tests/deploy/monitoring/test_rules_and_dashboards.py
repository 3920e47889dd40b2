"""The rules, the panels, the table of metrics and the runbook belong together."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.monitoring import dashboards, overdue_rules
from deploy.stack import METRICS_FILE, PROCESSES
from domain.needs.figures import FIGURES, Figure
from domain.operations.alerts import PASSES_LATE, SLOWEST_PASS, STALLED_AFTER
from domain.settings import Settings
from tests.debian import program
from tests.deploy.monitoring.names import (
    MONITORING,
    RULES,
    alerts,
    declared,
    documented,
    expressions,
    labels_named,
    named,
    recorded,
    records_named,
    series,
)
from tests.deploy.test_readmes import anchors

RUNBOOK = MONITORING.parent / "runbook.md"
ALERTMANAGER = MONITORING / "alertmanager" / "alertmanager.yml"
OF_PROMETHEUS = {"instance", "job", "le"}


def test_the_table_lists_every_metric_with_its_kind_and_labels() -> None:
    assert sorted(documented()) == sorted(declared())


def test_prometheus_reads_the_file_that_up_writes_and_the_readme_gives_up_ports_enough() -> None:
    """9100 is left out: it is the port of Prometheus's node exporter, which Debian installs and starts beside it."""
    found = re.search(r"FUELROUTE_METRICS_PORT=(\d+)-(\d+) deploy/up", (MONITORING / "README.md").read_text())
    assert found is not None
    ports = range(int(found[1]), int(found[2]) + 1)
    config = yaml.safe_load((MONITORING / "prometheus" / "prometheus.yml").read_text())
    ((file,),) = [one["files"] for one in config["scrape_configs"][0]["file_sd_configs"]]

    written = MONITORING.parents[1] / Settings().data / METRICS_FILE
    assert (MONITORING / "prometheus" / file).resolve() == written.resolve()
    assert len(ports) >= len(PROCESSES)
    assert 9100 not in ports


def test_the_files_of_the_dashboards_are_those_that_the_module_writes() -> None:
    written = {path.name: path.read_text() for path in dashboards.FOLDER.glob("*.json")}

    assert written == dashboards.rendered(), "run python -m deploy.monitoring.dashboards"


def test_the_file_of_overdue_alerts_is_the_one_that_the_module_writes() -> None:
    assert overdue_rules.FILE.read_text() == overdue_rules.rendered(), "run python -m deploy.monitoring.overdue_rules"


def test_prometheus_and_the_page_queues_have_the_same_limits_for_queues_and_passes() -> None:
    rule = {str(alert["alert"]): str(alert["expr"]) for alert in alerts()}

    assert f"> {STALLED_AFTER.seconds}\n" in rule["FuelrouteQueueStuck"].replace(" unless", "\n")
    assert f"> {PASSES_LATE} * " in rule["FuelroutePassLate"]
    assert f" + {SLOWEST_PASS.seconds}" in rule["FuelroutePassLate"]


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_names_only_series_and_labels_that_there_are(where: str, expression: str) -> None:
    known = {name: one for one in documented() for name in series(one)}

    assert named(expression) <= set(known), where
    assert records_named(expression) <= recorded(), where
    for name, labels in labels_named(expression):
        assert labels - OF_PROMETHEUS <= set(known[name].labels), f"{where}: {name}"
    assert named(expression) | records_named(expression) or "ALERTS" in expression or "up{" in expression


def test_every_metric_is_drawn_somewhere() -> None:
    drawn = {name for _, expression in expressions() for name in named(expression)}

    assert [one.name for one in documented() if not series(one) & drawn] == []


def test_every_recorded_figure_is_used() -> None:
    used = {name for _, expression in expressions() for name in records_named(expression)}

    assert recorded() == used


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_an_alert_leads_to_its_part_of_the_runbook(alert: dict[str, dict[str, str]]) -> None:
    path, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    assert MONITORING.parents[1] / path == RUNBOOK
    assert anchor in anchors(RUNBOOK)
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert f"`{alert['alert']}`, {alert['labels']['severity']}:" in re.sub(r"\s+", " ", RUNBOOK.read_text())


def test_two_alerts_have_two_names() -> None:
    names = [str(alert["alert"]) for alert in alerts()]

    assert len(set(names)) == len(names)


def check(name: str, *arguments: str | Path) -> str:
    """Runs a program of Prometheus."""
    path = program(name, "prometheus" if name == "promtool" else "prometheus-alertmanager")
    ran = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_promtool_takes_the_configuration_and_the_rules() -> None:
    check("promtool", "check", "config", MONITORING / "prometheus" / "prometheus.yml")
    check("promtool", "check", "rules", *RULES)


@pytest.mark.slow
def test_the_rules_pass_their_own_tests() -> None:
    check("promtool", "test", "rules", *sorted((MONITORING / "prometheus" / "tests").glob("*.yml")))


@pytest.mark.slow
def test_each_overdue_figure_fires_its_alert_after_its_time(tmp_path: Path) -> None:
    """Figures with an expression of their own have a test in `alerts.yml`."""
    figures = [figure for figure in FIGURES.values() if not figure.expression]
    (tmp_path / "rows.yml").write_text(yaml.safe_dump(promtool_test(figures, rows=7)))
    (tmp_path / "none.yml").write_text(yaml.safe_dump(promtool_test(figures, rows=0)))

    check("promtool", "test", "rules", tmp_path / "rows.yml", tmp_path / "none.yml")


def promtool_test(figures: list[Figure], *, rows: int) -> dict[str, object]:
    """Each figure has these rows from the beginning: its alert fires once its time is over, and not before."""
    fires = [
        {
            "eval_time": f"{figure.alert_minutes + 1}m",
            "alertname": figure.alert,
            "exp_alerts": [
                {
                    "exp_labels": {"severity": "page" if figure.urgent else "ticket", "figure": figure.name},
                    "exp_annotations": {
                        "summary": figure.summary.replace("{{ $value }}", str(rows)),
                        "runbook_url": f"deploy/runbook.md#{figure.runbook}",
                    },
                }
            ]
            if rows
            else [],
        }
        for figure in figures
    ]
    waits = [
        {"eval_time": f"{figure.alert_minutes - 1}m", "alertname": figure.alert}
        for figure in figures
        if figure.alert_minutes
    ]
    series = [
        {"series": f'fuelroute_overdue_items{{figure="{figure.name}"}}', "values": f"{rows}x75"} for figure in figures
    ]
    one = {"interval": "1m", "input_series": series, "alert_rule_test": fires + waits}
    return {"rule_files": [str(path) for path in RULES], "evaluation_interval": "1m", "tests": [one]}


def test_amtool_takes_the_configuration_of_alertmanager() -> None:
    check("amtool", "check-config", ALERTMANAGER)


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    (path,) = (MONITORING / "prometheus" / "tests").glob("*.yml")
    fired = {
        judged["alertname"]
        for test in yaml.safe_load(path.read_text())["tests"]
        for judged in test["alert_rule_test"]
        if judged.get("exp_alerts")
    }

    made = {figure.alert for figure in FIGURES.values() if not figure.expression}
    assert {str(alert["alert"]) for alert in alerts()} - fired - made == set()


@pytest.mark.parametrize(("severity", "receiver"), [("page", "on-call"), ("ticket", "tickets")])
def test_alertmanager_tells_the_right_receiver(severity: str, receiver: str) -> None:
    said = check("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", f"severity={severity}")

    assert said.strip() == receiver


def test_the_alerts_that_are_held_back_exist() -> None:
    names = {str(alert["alert"]) for alert in alerts()}
    for rule in yaml.safe_load(ALERTMANAGER.read_text())["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            pattern = re.compile(matcher.partition("alertname ")[2].lstrip("=~ ").strip('"'))
            assert any(pattern.fullmatch(name) for name in names), matcher
            for wanted in pattern.pattern.split("|"):
                assert any(re.fullmatch(wanted, name) for name in names), wanted
