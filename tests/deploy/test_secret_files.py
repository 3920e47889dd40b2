"""Secrets come from files as well as from variables, and a mistake is told without repeating a secret."""

from pathlib import Path

import pytest

from domain.settings import SECRETS, Settings, UnusableSetting, get_settings

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
VALUES = {
    "database_url": "postgresql://user:s3cret@db/fuelroute",
    "database_direct_url": "postgresql://user:s3cret@direct/fuelroute",
    "database_replica_url": "postgresql://user:s3cret@replica1,replica2/fuelroute",
    "redis_url": "redis://:s3cret@queue:6379/0",
    "valhalla_url": "http://user:s3cret@roads:8002",
    "contact_key": KEY,
    "openid_client_secret": "s3cret of the client",
}


@pytest.fixture(autouse=True)
def _fresh_settings() -> None:
    get_settings.cache_clear()


def test_every_setting_that_is_never_shown_comes_from_a_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {name for name, field in Settings.model_fields.items() if not field.repr} <= set(VALUES)
    assert set(SECRETS) == set(VALUES)
    readme = (Path(__file__).parents[2] / "deploy" / "README.md").read_text()
    assert {name for name in VALUES if f"_{name.upper()}_FILE`" not in readme} == set()
    for name, value in VALUES.items():
        (tmp_path / name).write_text(f"{value}\n")
        monkeypatch.setenv(f"FUELROUTE_{name.upper()}_FILE", str(tmp_path / name))
    settings = get_settings()
    assert settings.contact_keys() == KEY
    assert (settings.require_database_url(), settings.require_direct_url(), settings.require_redis_url()) == tuple(
        VALUES[name] for name in ("database_url", "database_direct_url", "redis_url")
    )
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "cannot read .*No such file"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "it is no text"),
        (b"x@y", "no address"),
    ],
)
def test_a_file_that_is_no_secret_is_told(
    content: bytes | None, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("FUELROUTE_REDIS_URL_FILE", str(file))
    with pytest.raises(UnusableSetting, match=rf"FUELROUTE_REDIS_URL.*{fault}"):
        get_settings()


def test_a_variable_and_its_file_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", KEY)
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(UnusableSetting, match="FUELROUTE_CONTACT_KEY_FILE and FUELROUTE_CONTACT_KEY are both set"):
        get_settings()
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY_FILE", "")  # as `fuelroute up` tells its processes
    assert get_settings().contact_keys() == KEY


def test_no_other_setting_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "level").write_text("debug")
    monkeypatch.setenv("FUELROUTE_LOG_LEVEL_FILE", str(tmp_path / "level"))
    assert get_settings().log_level == "info"


def test_the_direct_address_needs_the_pooler_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_DIRECT_URL", VALUES["database_direct_url"])
    with pytest.raises(UnusableSetting, match="FUELROUTE_DATABASE_DIRECT_URL: set FUELROUTE_DATABASE_URL too"):
        get_settings()


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.1;10.0.0.2"])
def test_proxies_are_addresses_or_networks(proxies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_PROXIES", proxies)
    with pytest.raises(UnusableSetting, match="FUELROUTE_PROXIES: give addresses or networks separated by commas"):
        get_settings()
