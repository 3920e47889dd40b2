"""An ELD gateway that nobody knows is connected by a description, which `fuelroute connectors test` previews."""

import json
from pathlib import Path

import pytest

from domain.database.connections import Database
from domain.settings import Settings
from tests.deploy.commands import Cli
from tests.factories import Fleet
from tests.rows import named
from tests.vendors.eld import running_eld

DESCRIPTION = {
    "units": "/payload/assets",
    "name": "/label/no",
    "latitude": "/pos/0",
    "longitude": "/pos/1",
    "time": "/epoch",
    "speed": "/kmh",
    "speed_unit": "km/h",
    "fuel_percent": "/tank",
}


def test_a_description_is_refused_previewed_and_corrected(
    cli: Cli, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUELROUTE_CONNECTOR_ALLOWED_HOSTS", "127.0.0.1")
    company = ("--company", fleet.shown_company_id)
    with running_eld() as vendor:
        vendor.nested = True
        vendor.report("101", 41.5, -88.1, speed_mph=60.0, fuel_percent=44.0)
        url = f"{vendor.url}/api/v2/units-by-usdot/{vendor.usdot}"
        file = tmp_path / "eld.json"

        def given(**changes: str) -> tuple[str, ...]:
            credentials = {"api_key": vendor.token, "provider_token": vendor.provider_token}
            file.write_text(json.dumps({**credentials, "description": json.dumps({**DESCRIPTION, **changes})}))
            return ("--credentials", str(file))

        wrong = cli("connectors", "add", *company, "--kind", "eld", "--url", url, *given(units="assets"))
        assert "`units` is not a JSON pointer" in wrong.sentence
        added = cli("connectors", "add", *company, "--kind", "eld", "--url", url, *given(latitude="/nowhere"), "--json")
        connector = added.document["id"]
        said = cli("connectors", "test", *company, connector).out
        assert "1 units, of which 0 can be read: correct the pointers" in said

        cli("connectors", "set", *company, connector, *given())
        said = cli("connectors", "test", *company, connector).out
    assert "1 units, of which 1 can be read. The first: 101 at 41.5000, -88.1000," in said
    assert "60 mph, fuel 44 %" in said
    assert vendor.token not in said


def test_a_connector_for_messages_alone_is_not_asked(cli: Cli, fleet: Fleet, tmp_path: Path) -> None:
    company = ("--company", fleet.shown_company_id)
    file = tmp_path / "samsara.txt"
    file.write_text("token=secret-token\npositions=maybe\n")
    add = ("connectors", "add", *company, "--kind", "samsara", "--credentials", str(file))
    assert "Positions is left empty, or `no`" in cli(*add).sentence
    file.write_text("token=secret-token\npositions=no\n")
    connector = cli(*add, "--json").document["id"]
    assert "asks Samsara for no positions" in cli("connectors", "test", *company, connector).out


def test_a_failed_test_is_kept_in_the_audit_log(cli: Cli, settings: Settings, fleet: Fleet, tmp_path: Path) -> None:
    company = ("--company", fleet.shown_company_id)
    file = tmp_path / "samsara.txt"
    file.write_text("token=secret-token\n")
    add = ("connectors", "add", *company, "--kind", "samsara", "--url", "https://a.invalid", "--credentials", str(file))
    connector = cli(*add, "--json").document["id"]
    assert json.loads(cli("connectors", "test", *company, connector, "--json").out)["ok"] is False
    with Database.of(settings) as database, database.transaction() as connection:
        rows = named(connection).execute(
            "SELECT * FROM audit_log WHERE company_id = %s AND action = 'connectors.test'", (fleet.company_id,)
        )
        (kept,) = rows.fetchall()
    assert kept.subject == f"connector {connector}"
    assert kept.reason.startswith("it failed: ")
