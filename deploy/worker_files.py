"""The workers of each queue in the files of Compose, Kubernetes and Prometheus: `python -m deploy.worker_files` writes
them between two comments of each file. A test compares the files with this module."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from deploy.stack import PROCESSES
from domain.queue.jobs import QUEUES

HERE = Path(__file__).parent
_BEGIN, _END = "# workers, by python -m deploy.worker_files\n", "# end of workers\n"


class Workers(NamedTuple):
    """The workers of a queue, as a cluster runs them."""

    target_seconds: int
    """The age of the oldest job that is aimed at: KEDA starts workers while jobs are older."""
    reach_the_world: bool
    """They call gateways and endpoints on the internet."""


WORKERS: Mapping[str, Workers] = {
    "imports": Workers(2, reach_the_world=False),
    "arrivals": Workers(10, reach_the_world=False),
    "plans": Workers(10, reach_the_world=False),
    "messages": Workers(15, reach_the_world=True),
    "webhooks": Workers(15, reach_the_world=True),
}

_SERVICE = """\
  workers-{queue}:
    <<: *fuelroute
    command: [workers, --queues, {queue}]

"""
_DEPLOYMENT = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: workers-{queue}, labels: {{app.kubernetes.io/component: workers-{queue}}}}}
spec:
  selector: {{matchLabels: {{app.kubernetes.io/component: workers-{queue}}}}}
  template:
    metadata: {{labels: {{app.kubernetes.io/component: workers-{queue}}}}}
    spec:
      containers:
        - name: fuelroute
          args: [workers, --queues, {queue}]
"""
_BUDGET = """\
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: workers-{queue}}}
spec:
  maxUnavailable: 1
  selector: {{matchLabels: {{app.kubernetes.io/component: workers-{queue}}}}}
"""
_SCALED = """\
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: workers-{queue}}}
spec:
  scaleTargetRef: {{name: workers-{queue}}}
  minReplicaCount: 2
  maxReplicaCount: 10
  pollingInterval: 15
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {{policies: [{{type: Percent, value: 100, periodSeconds: 30}}]}}
        scaleDown: {{stabilizationWindowSeconds: 300, policies: [{{type: Pods, value: 1, periodSeconds: 60}}]}}
  triggers:
    - type: prometheus
      metricType: Value
      metadata:
        serverAddress: http://prometheus-operated.monitoring.svc:9090
        query: max(fuelroute_queue_oldest_age_seconds{{queue="{queue}"}})
        threshold: "{seconds}"
"""
_NAME = "          - workers-{queue}\n"
_PORT = "          - 127.0.0.1:{port}\n"
_FIRST_PORT = 9110


def _of_each(template: str, queues: list[str]) -> str:
    return "".join(template.format(queue=queue, seconds=WORKERS[queue].target_seconds) for queue in queues)


def parts() -> dict[Path, str]:
    """The part about workers of each file."""
    queues = list(QUEUES)
    ports = range(_FIRST_PORT, _FIRST_PORT + len(PROCESSES))
    return {
        HERE / "containers" / "compose.yaml": _of_each(_SERVICE, queues),
        HERE / "containers" / "prometheus.yml": _of_each(_NAME, queues),
        HERE / "monitoring" / "prometheus" / "prometheus.yml": "".join(_PORT.format(port=port) for port in ports),
        HERE / "kubernetes" / "base" / "processes.yaml": _of_each(_DEPLOYMENT, queues),
        HERE / "kubernetes" / "base" / "disruption.yaml": _of_each(_BUDGET, queues),
        HERE / "kubernetes" / "base" / "network-policies.yaml": _of_each(
            _NAME, [queue for queue in queues if WORKERS[queue].reach_the_world]
        ),
        HERE / "kubernetes" / "components" / "keda" / "scaled-objects.yaml": _of_each(_SCALED, queues),
    }


def rendered() -> dict[Path, str]:
    """The whole text of each file."""
    return {path: _with_part(path.read_text(), part) for path, part in parts().items()}


def _with_part(text: str, part: str) -> str:
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    indent = before[before.rindex("\n") + 1 :]
    return f"{before}{_BEGIN}{part}{indent}{_END}{after}"


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text)
