"""The workers of each queue in the files of Compose and Kubernetes: `python -m deploy.worker_files` writes them. A test
compares the files with this module."""

from pathlib import Path

from domain.queue.jobs import QUEUES, WORKERS

HERE = Path(__file__).parent
_COMPOSE = HERE / "containers" / "compose.yaml"
_BEGIN, _END = "  # workers, by python -m deploy.worker_files\n", "  # end of workers\n"

_SERVICE = """\
  workers-{queue}:
    <<: *fuelroute
    command: [workers, --queues, {queue}]

"""
_KUBERNETES = HERE / "kubernetes" / "workers" / "workers.yaml"
_HEAD = "# By python -m deploy.worker_files: Deployment, budget of disruptions and scaling of each queue's workers.\n"
_OBJECTS = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: workers-{queue}, labels: {{app.kubernetes.io/component: workers-{queue}}}}}
spec:
  selector: {{matchLabels: {{app.kubernetes.io/component: workers-{queue}}}}}
  template:
    metadata: {{labels: {{app.kubernetes.io/component: workers-{queue}{reach}}}}}
    spec:
      containers:
        - name: fuelroute
          args: [workers, --queues, {queue}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: workers-{queue}}}
spec:
  maxUnavailable: 1
  selector: {{matchLabels: {{app.kubernetes.io/component: workers-{queue}}}}}
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


def rendered() -> dict[Path, str]:
    """The whole text of each file."""
    before, _, rest = _COMPOSE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    services = "".join(_SERVICE.format(queue=queue) for queue in QUEUES)
    return {
        _COMPOSE: f"{before}{_BEGIN}{services}{_END}{after}",
        _KUBERNETES: _HEAD + "".join(_objects(queue) for queue in QUEUES),
    }


def _objects(queue: str) -> str:
    workers = WORKERS[queue]
    reach = ", reaches: the-world" if workers.reach_the_world else ""
    return _OBJECTS.format(queue=queue, seconds=workers.target_seconds, reach=reach)


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text)
