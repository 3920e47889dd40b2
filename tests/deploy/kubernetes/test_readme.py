"""The commands of deploy/kubernetes/README.md that need no cluster are run as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.kubernetes.manifests import KUBERNETES, of_kind, pods

COMMANDS = re.findall(r"^ {7}(kubectl .*)$", (KUBERNETES / "README.md").read_text(), re.M)
MADE = [command for command in COMMANDS if " create " in command]


def test_the_readme_has_the_commands() -> None:
    assert len(MADE) == 3
    assert f"apply --kustomize {KUBERNETES.relative_to(KUBERNETES.parents[1])}/overlays/small" in COMMANDS[-1]


@pytest.mark.slow
@pytest.mark.parametrize("command", MADE)
def test_what_a_command_makes_is_what_the_manifests_name(command: str, tmp_path: Path) -> None:
    _certificate(tmp_path)
    for name in ("database-url", "redis-url", "contact-key"):
        (tmp_path / name).write_text("secret")
    line = command.partition(" | ")[0]
    line += "" if "--dry-run" in line else " --dry-run=client --output yaml"
    kubectl = str(Path(sys.executable).with_name("kubectl"))

    done = subprocess.run([kubectl, *line.split()[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    name = made["metadata"]["name"]
    if made["kind"] == "Namespace":
        assert name in of_kind("small", "Namespace")
    elif made.get("type") == "kubernetes.io/tls":
        (public,) = of_kind("small", "Ingress").values()
        assert name == public["spec"]["tls"][0]["secretName"]
    else:
        pod = pods("small")["ingress"]
        (volume,) = [one["secret"] for one in pod["spec"]["volumes"] if "secret" in one]
        files = {one["value"].rpartition("/")[2] for one in pod["spec"]["containers"][0]["env"]}
        assert (name, set(made["data"])) == (volume["secretName"], files)


def _certificate(folder: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=api.example.com", "-days", "1",
         "-keyout", folder / "tls.key", "-out", folder / "tls.crt"],
        check=True,
        capture_output=True,
    )  # fmt: skip
