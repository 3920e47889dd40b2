"""The alerts on overdue work as code: `python -m deploy.monitoring.overdue_rules` writes them to
`prometheus/rules/overdue.yml`, an alert for each figure of `domain/needs/figures.py`. A test compares the file."""

from pathlib import Path

from domain.needs.figures import FIGURES, Figure

FILE = Path(__file__).parent / "prometheus" / "rules" / "overdue.yml"

_HEAD = """\
# Alerts for overdue work, written by python -m deploy.monitoring.overdue_rules
groups:
  - name: fuelroute-overdue
    rules:
"""


def rendered() -> str:
    return _HEAD + "".join(map(_alert, FIGURES.values()))


def _alert(figure: Figure) -> str:
    expression = figure.expression or f'fuelroute:overdue_items:max{{figure="{figure.name}"}} > 0'
    wait = f"        for: {figure.alert_minutes}m\n" if figure.alert_minutes else ""
    return f"""\
      - alert: {figure.alert}
        expr: >-
          {expression}
{wait}\
        labels: {{severity: {"page" if figure.urgent else "ticket"}}}
        annotations:
          summary: "{figure.summary}"
          runbook_url: deploy/runbook.md#{figure.runbook}
"""


if __name__ == "__main__":
    FILE.write_text(rendered())
