"""The manifests are valid, whole, and fit the service: nothing that one names is missing, and no limit cuts another."""

import copy
import re
from typing import Any

import kubernetes_validate
import pytest

from domain.operations.doctor.postgres import connections_of
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import MOST_FILES
from tests.deploy.commands import commands
from tests.deploy.containers.compose import built_in, our_services
from tests.deploy.kubernetes.manifests import (
    KUBERNETES,
    OUTWARD,
    OVERLAYS,
    chooses,
    container,
    of_kind,
    pods,
    rendered,
    variables,
)

CUSTOM = {"ScaledObject", "PodMonitor"}
"""Kinds of KEDA and of the Prometheus operator, which `kubernetes-validate` does not know."""
every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def check(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(copy.deepcopy(manifest), "1.37", strict=True)


@pytest.mark.slow
@every_overlay
def test_every_object_keeps_to_the_schemas_of_the_api(overlay: str) -> None:
    for manifest in rendered(overlay):
        if manifest["kind"] not in CUSTOM:
            check(manifest)


def test_an_unknown_field_would_be_found() -> None:
    (service, *_) = of_kind("small", "Service").values()

    with pytest.raises(kubernetes_validate.ValidationError):
        check({**service, "spec": {**service["spec"], "selektor": {}}})


@every_overlay
def test_everything_is_in_one_namespace_that_demands_restricted_pods(overlay: str) -> None:
    (namespace,) = of_kind(overlay, "Namespace").values()
    homes = {one["metadata"].get("namespace") for one in rendered(overlay) if one["kind"] != "Namespace"}

    assert homes == {namespace["metadata"]["name"]}
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@every_overlay
def test_the_small_overlay_needs_no_other_operator(overlay: str) -> None:
    kinds = {one["kind"] for one in rendered(overlay)} & CUSTOM

    assert kinds == (CUSTOM if overlay == "large" else set())


@every_overlay
def test_each_kind_of_process_has_a_deployment(overlay: str) -> None:
    lines = [container(pod)["args"] for pod in pods(overlay).values()]

    assert sorted(lines) == sorted(service["command"] for service in our_services().values())
    known = {name.removeprefix("fuelroute ") for name, _ in commands() if name.count(" ") == 1}
    assert {line[0] for line in lines} <= known


@every_overlay
def test_no_pod_has_rights(overlay: str) -> None:
    for pod in pods(overlay).values():
        spec, one = pod["spec"], container(pod)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["serviceAccountName"] in of_kind(overlay, "ServiceAccount")


@every_overlay
def test_every_variable_is_a_setting_and_no_secret_is_among_them(overlay: str) -> None:
    for pod in pods(overlay).values():
        given = {name.removeprefix("FUELROUTE_").lower(): value for name, value in variables(overlay, pod).items()}
        files = {name.removesuffix("_file") for name in given if name.endswith("_file")}
        plain = {name: value for name, value in given.items() if not name.endswith("_file")}
        assert files == {"database_url", "redis_url", "contact_key"}
        assert files | set(plain) <= set(Settings.model_fields)
        assert not files & set(plain)
        mounted = {mount["name"]: mount["mountPath"] for mount in container(pod)["volumeMounts"]}
        assert {given[f"{name}_file"].rpartition("/")[0] for name in files} == {mounted["secrets"]}


@every_overlay
def test_a_pod_has_time_to_stop(overlay: str) -> None:
    for name, pod in pods(overlay).items():
        if name == "migrate":
            continue
        plain: dict[str, Any] = {
            key.removeprefix("FUELROUTE_").lower(): value
            for key, value in variables(overlay, pod).items()
            if not key.endswith("_FILE")
        }
        assert pod["spec"]["terminationGracePeriodSeconds"] > Settings(**plain).longest_stop_seconds(), name


@every_overlay
def test_probes_and_services_name_ports_on_which_the_image_listens(overlay: str) -> None:
    listening = {int(built_in()[f"FUELROUTE_{name}PORT"]) for name in ("", "CONSOLE_", "METRICS_")}
    for name, pod in pods(overlay).items():
        one = container(pod)
        ports = {port["name"]: port["containerPort"] for port in one.get("ports", [])}
        assert set(ports.values()) <= listening
        if name != "migrate":
            paths = {kind: one[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
            assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
            assert {one[f"{kind}Probe"]["httpGet"]["port"] for kind in paths} <= set(ports)
    for name, service in of_kind(overlay, "Service").items():
        (chosen,) = [
            pod
            for pod in pods(overlay).values()
            if chooses({"matchLabels": service["spec"]["selector"]}, pod["metadata"]["labels"])
        ]
        assert chosen is pods(overlay)[name]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {
            port["name"] for port in container(chosen)["ports"]
        }


@every_overlay
def test_the_way_in_leads_to_services(overlay: str) -> None:
    (public,) = of_kind(overlay, "Ingress").values()
    hosts = {rule["host"]: rule["http"]["paths"][0]["backend"]["service"] for rule in public["spec"]["rules"]}
    (config,) = of_kind(overlay, "ConfigMap").values()

    assert {host: to["name"] for host, to in hosts.items()} == {
        config["data"]["FUELROUTE_API_URL"].removeprefix("https://"): "ingress",
        config["data"]["FUELROUTE_CONSOLE_URL"].removeprefix("https://"): "console",
    }
    for to in hosts.values():
        assert to["port"]["name"] in {port["name"] for port in of_kind(overlay, "Service")[to["name"]]["spec"]["ports"]}
    assert [list(hosts)] == [tls["hosts"] for tls in public["spec"]["tls"]]


@every_overlay
def test_the_way_in_lets_pass_what_the_console_takes(overlay: str) -> None:
    (public,) = of_kind(overlay, "Ingress").values()
    most = public["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]

    assert most == f"{MAX_FILE_BYTES >> 20}m"


@every_overlay
def test_each_deployment_has_a_disruption_budget(overlay: str) -> None:
    chosen = [
        [name for name, pod in pods(overlay).items() if chooses(budget["spec"]["selector"], pod["metadata"]["labels"])]
        for budget in of_kind(overlay, "PodDisruptionBudget").values()
    ]

    assert sorted(chosen) == [[name] for name in sorted(of_kind(overlay, "Deployment"))]


@every_overlay
def test_files_on_their_way_to_the_console_evict_no_pod(overlay: str) -> None:
    (tmp,) = [one for one in pods(overlay)["console"]["spec"]["volumes"] if one["name"] == "tmp"]

    assert tmp == {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}
    assert MOST_FILES * MAX_FILE_BYTES < 1 << 30


@every_overlay
def test_memory_is_bounded_and_requests_are_what_was_measured(overlay: str) -> None:
    """deploy/kubernetes/README.md has the measurement: up to 107 MB of memory, 202 with 100,000 stations."""
    for pod in pods(overlay).values():
        resources = container(pod)["resources"]
        assert resources["limits"] == {"memory": "512Mi"}  # no limit of processor time: it would only add to waits
        assert resources["requests"]["memory"] in ("128Mi", "256Mi")


def test_each_queue_is_scaled_by_the_age_of_its_oldest_job() -> None:
    scaled = of_kind("large", "ScaledObject")
    queries = {name: one["spec"]["triggers"][0]["metadata"].get("query") for name, one in scaled.items()}

    assert queries == {
        "ingress": None,
        **{f"workers-{queue}": f'max(fuelroute_queue_oldest_age_seconds{{queue="{queue}"}})' for queue in QUEUES},
    }
    for name, one in scaled.items():
        deployment = of_kind("large", "Deployment")[one["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in deployment["spec"], f"{name}: each `apply` would undo the scaling"
        (trigger,) = one["spec"]["triggers"]
        assert float(trigger["metadata"].get("threshold") or trigger["metadata"]["value"]) > 0
        check(_as_autoscaler(one))


def _as_autoscaler(scaled: dict[str, Any]) -> dict[str, Any]:
    """The autoscaler that KEDA makes of it."""
    spec = scaled["spec"]
    allowed = {"scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "advanced", "triggers"}
    assert set(spec) <= allowed
    assert set(spec["advanced"]) == {"horizontalPodAutoscalerConfig"}
    assert 1 < spec["minReplicaCount"] < spec["maxReplicaCount"]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": scaled["metadata"]["name"]},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", **spec["scaleTargetRef"]},
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            **spec["advanced"]["horizontalPodAutoscalerConfig"],
        },
    }


def test_all_processes_at_their_most_find_room_in_the_database() -> None:
    """README.md says for how many connections PostgreSQL must be set."""
    text = (KUBERNETES / "README.md").read_text()
    (said,) = re.findall(r"`max_connections` of at least ([\d,]+)", text)
    most = {name: one["spec"]["maxReplicaCount"] for name, one in of_kind("large", "ScaledObject").items()}
    opened = sum(
        most.get(name, one["spec"].get("replicas", 1)) * connections_of(name.partition("-")[0], Settings())
        for name, one in of_kind("large", "Deployment").items()
    )

    assert int(said.replace(",", "")) >= opened


@every_overlay
def test_the_monitor_finds_every_process(overlay: str) -> None:
    for monitor in of_kind(overlay, "PodMonitor").values():
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        for name in of_kind(overlay, "Deployment"):
            pod = pods(overlay)[name]
            assert chooses(monitor["spec"]["selector"], pod["metadata"]["labels"])
            assert endpoint["port"] in {port["name"] for port in container(pod)["ports"]}


def allowed(overlay: str, name: str, way: str) -> list[dict[str, Any]]:
    """The rules for what goes to a pod (`ingress`) or from it (`egress`)."""
    labels = pods(overlay)[name]["metadata"]["labels"]
    policies = [one["spec"] for one in of_kind(overlay, "NetworkPolicy").values()]
    chosen = [one for one in policies if chooses(one["podSelector"], labels) and way.capitalize() in one["policyTypes"]]
    assert chosen, f"{name}: no policy, so everything is allowed"
    return [rule for one in chosen for rule in one.get(way, [])]


@every_overlay
def test_pods_are_reached_by_the_proxy_and_by_prometheus_alone(overlay: str) -> None:
    for name in pods(overlay):
        rules = {rule["ports"][0]["port"]: rule["from"] for rule in allowed(overlay, name, "ingress")}
        assert set(rules) == ({"http", "metrics"} if name in ("ingress", "console") else {"metrics"})
        assert all(rules.values())


@every_overlay
def test_only_processes_that_call_the_world_get_there_and_never_inside(overlay: str) -> None:
    for name in pods(overlay):
        rules = allowed(overlay, name, "egress")
        assert {5432, 6379, 53} <= {port["port"] for rule in rules for port in rule.get("ports", [])}
        worldwide = [block["ipBlock"] for rule in rules for block in rule.get("to", []) if "ipBlock" in block]
        assert bool(worldwide) == (name in OUTWARD), name
        for block in worldwide:
            inside = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "127.0.0.0/8"}
            assert inside <= set(block["except"]) or {"fc00::/7", "fe80::/10", "::1/128"} <= set(block["except"])
