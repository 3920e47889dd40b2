"""`fuelroute preview`: the fuel of a load as a table and as JSON."""

from pathlib import Path

import pytest

from deploy.cli import arguments
from domain.encoding import write
from tests.deploy.commands import Cli
from tests.domain.previews.loads import load
from tests.factories import JOLIET, Fleet


def test_a_load_is_previewed_as_a_table_and_as_json(cli: Cli, fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    file.write_bytes(write(load(vehicle={"unitNumber": "101", "fuelPercent": 95})))

    shown = cli("preview", str(file), "--company", fleet.shown_company_id)
    answer = cli("preview", str(file), "--company", fleet.shown_company_id, "--json").document

    assert answer["vehicle"]["unitNumber"] == "101"
    for text in ("Joliet terminal to Port Newark", "101: 200 gal, 6.5 mpg, 95 % at the start", "by state", "assumed"):
        assert text in shown.out
    assert "surcharge" in shown.out, "the tax is by both rates"
    assert f"{answer['distanceMiles']:,.1f} mi" in shown.out


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (write({"stops": [JOLIET, {"town": "Springfield"}]}).decode(), "stops[1].town: 'Springfield' fits"),
        (write({"routeId": "rte_none"}).decode(), "no such route"),
        ("{", "not JSON"),
        (None, "cannot read"),
    ],
)
def test_what_cannot_be_previewed_is_told(cli: Cli, fleet: Fleet, tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "load.json"
    if text is not None:
        file.write_text(text)

    assert why in cli("preview", str(file), "--company", fleet.shown_company_id).sentence


def test_a_device_that_never_ends_is_told(cli: Cli, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_MOST_BYTES", 1 << 20)

    assert "more than 1 MiB" in cli("preview", "/dev/zero", "--company", fleet.shown_company_id).sentence
