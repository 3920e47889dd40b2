"""The templates of the cluster are well formed, and say what the rest of the project expects."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.cluster import rehearsal
from deploy.cluster.load import Answer, Gateway, Load
from deploy.cluster.machines import CannotRehearse, Network
from deploy.cluster.setup import TEMPLATES, Cluster, check_programs, environment_of, postgres_programs
from domain.addresses import postgres_address, redis_address
from domain.settings import SECRETS, Settings
from tests.debian import program

NAMES = sorted(file.name for file in TEMPLATES.iterdir())


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Its machines have folders and addresses, and are not made."""
    monkeypatch.setattr("deploy.cluster.setup.postgres_programs", lambda: Path("/usr/lib/postgresql/15/bin"))
    return Cluster(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_a_template_is_known(name: str, cluster: Cluster) -> None:
    file = cluster.render(cluster.databases[0], name)
    assert "$" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0, "it may hold passwords"


def test_patroni_loses_nothing_and_promotes_in_time(cluster: Cluster) -> None:
    config = yaml.safe_load(cluster.render(cluster.databases[1], "patroni.yml").read_text())
    dcs = config["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] is True
    assert dcs["postgresql"]["parameters"]["synchronous_commit"] == "on"
    assert dcs["ttl"] >= dcs["loop_wait"] + 2 * dcs["retry_timeout"]  # else a primary steps down without a fault
    assert (config["name"], config["restapi"]["listen"]) == ("db2", "10.77.0.12:8008")
    assert len(config["etcd"]["hosts"].split(",")) == 3


def test_etcd_and_pgbouncer_are_what_patroni_and_the_service_expect(cluster: Cluster) -> None:
    etcd = yaml.safe_load(cluster.render(cluster.databases[0], "etcd.yml").read_text())
    assert etcd["initial-cluster"].count("=") == 3
    assert etcd["enable-v2"] is True
    pgbouncer = configparser.ConfigParser()
    pgbouncer.read_string(cluster.render(cluster.databases[0], "pgbouncer.ini").read_text())
    assert pgbouncer["pgbouncer"]["pool_mode"] == "transaction"
    assert "ignore_startup_parameters" not in pgbouncer["pgbouncer"], "it would drop the role of a session"


def test_redis_and_sentinel_read_their_files(cluster: Cluster) -> None:
    for name in ("redis.conf", "sentinel.conf"):
        lines = cluster.render(cluster.queues[0], name).read_text().splitlines()
        assert all(re.fullmatch(r"#.*|[a-z-]+ .+", line) for line in lines), name
    assert "maxmemory-policy noeviction" in cluster.render(cluster.queues[0], "redis.conf").read_text()


def test_haproxy_accepts_its_file(cluster: Cluster) -> None:
    file = cluster.render(cluster.balancer, "haproxy.cfg")
    assert {"backend ingress", "backend console", "listen database"} <= set(file.read_text().splitlines())
    haproxy = program("haproxy", "haproxy")
    done = subprocess.run([haproxy, "-c", "-f", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_settings_of_an_application_machine_are_settings_of_ours(cluster: Cluster) -> None:
    values = environment_of(cluster.render(cluster.applications[0], "fuelroute.env"))
    names = {name.removeprefix("FUELROUTE_").lower() for name in values}
    assert names <= set(Settings.model_fields) | {f"{name}_file" for name in SECRETS}
    assert values["FUELROUTE_PROXIES"] == cluster.balancer.address
    assert postgres_address(cluster.direct_url) == cluster.direct_url
    assert postgres_address(cluster.database_url) == cluster.database_url
    assert redis_address(cluster.redis_url) == cluster.redis_url


def test_what_callers_met_is_measured() -> None:
    load = Load("http://nowhere", ["key"])
    load.answers = [Answer(9.0, "500"), Answer(10.5, "202"), Answer(11.0, "500"), Answer(14.0, "201")]
    outage = load.since(10.0)
    assert outage.seconds >= 3.5  # until now there was none since
    assert (dict(outage.failures), outage.pushes) == ({"500": 1}, 3)


def test_the_gateway_counts_messages_by_route(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.cluster.load.OUTSIDE", "127.0.0.1")
    gateway = Gateway()
    with gateway:
        for text in ("Fuel plan for L0000020: stop 1", "CORRECTED fuel plan for L0000020", "L0000040.", "no route"):
            gateway.note(text)
    assert dict(gateway.received) == {"L0000020": 1, "L0000040": 1}


def test_the_rehearsal_needs_root_and_known_faults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rehearse"])
    monkeypatch.setattr("os.getuid", lambda: 1000)
    assert rehearsal.main() == 2
    assert "needs root" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["rehearse", "meteor"])
    monkeypatch.setattr("os.getuid", lambda: 0)
    assert rehearsal.main() == 2
    assert "no such fault: meteor; choose from primary-killed" in capsys.readouterr().err


def test_every_fault_is_described() -> None:
    readme = (TEMPLATES.parent / "README.md").read_text()
    for name, fault in rehearsal.FAULTS.items():
        assert f"`{name}`" in readme
        assert fault.__doc__


def test_a_missing_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.cluster.setup.shutil.which", lambda *_, **__: None)
    with pytest.raises(CannotRehearse, match=r"patroni, etcd.* not found: apt-get install patroni"):
        check_programs()
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    with pytest.raises(CannotRehearse, match="apt-get install postgresql"):
        postgres_programs()


def test_results_are_a_table() -> None:
    row = rehearsal.Result("switchover", 1.5, 40, {"503": 2, "500": 1}, 6.0, 0.1, "db1 -> db2")
    table = rehearsal.as_table({"faults": [row._asdict()]})
    assert table.splitlines()[2] == "| `switchover` | 1.5 | 40: 1 x 500, 2 x 503 | 6.0 s | 0.1 s | db1 -> db2 |"


def test_two_rehearsals_do_not_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would take the machines of the first for leftovers."""
    monkeypatch.setattr("deploy.cluster.machines._LOCK", tmp_path / "lock")
    monkeypatch.setattr("deploy.cluster.machines.command", lambda *_, **__: "")
    with Network(), pytest.raises(CannotRehearse, match="another rehearsal runs"), Network():
        pass
    with Network():
        pass
