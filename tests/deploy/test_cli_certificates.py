"""`fuelroute check` says what a certificate proves, or in one sentence why it proves nothing."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.database.connections import Database
from domain.ids import shown_id
from domain.planning.certificate import certificate_of
from domain.planning.fuel_plan import compute_plan
from tests.deploy.commands import Cli
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.planning.plans import inputs, meridian, priced
from tests.domain.planning.test_certificates import CHANGES, changed, dearer, of_road, written
from tests.factories import make_fleet


def test_a_certificate_is_checked_from_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_bytes(of_road())

    told = cli("check", str(file), "--json").document

    assert told["proven"].startswith("The plan costs $")
    assert cli("check", str(file)).out.split()[-1] == told["sha256"]


def test_a_certificate_is_compared_with_the_stored_plan(cli: Cli, database: Database, tmp_path: Path) -> None:
    """A right certificate of another trip is told apart: a candidate is missing in it, which no checker can see."""
    now, file = datetime.now(UTC), tmp_path / "certificate.json"
    plan, smaller = (
        compute_plan(inputs(meridian(1000), *(priced(mile, 3.5) for mile in range(100, 1000, every))))
        for every in (100, 150)
    )
    with database.transaction() as connection:
        route_id = imported(connection, make_fleet(connection).live, now=now)
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (plan.packed_explanation, route_id))
    route = shown_id("rte", route_id)

    file.write_text(cli("explain", route, "--certificate").out)
    assert cli("check", str(file), "--stored").status == 0
    file.write_bytes(certificate_of(smaller.packed_explanation, route=route))
    assert cli("check", str(file)).status == 0
    assert "not that of a plan which is stored" in cli("check", str(file), "--stored").sentence


def test_a_certificate_of_an_earlier_version_is_compared_by_its_inputs_and_plan(
    cli: Cli, database: Database, tmp_path: Path
) -> None:
    now, file = datetime.now(UTC), tmp_path / "certificate.json"
    plan = compute_plan(inputs(meridian(400), priced(100, 3.4), priced(200, 3.6)))
    with database.transaction() as connection:
        route_id = imported(connection, make_fleet(connection).live, now=now)
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE plans SET explanation = %s WHERE route_id = %s", (plan.packed_explanation, route_id))
    document = json.loads(cli("explain", shown_id("rte", route_id), "--certificate").out)
    document["format"] = "fuelroute-certificate-1"
    document["plan"] = {**document["plan"], "above_least": 0.5}
    del document["plan"]["step_gallons"], document["plan"]["cheapest"]

    file.write_bytes(written(document))
    assert cli("check", str(file), "--stored").status == 0
    document["candidates"][1][4] += 0.25
    file.write_bytes(written(document))
    assert "not that of a plan which is stored" in cli("check", str(file), "--stored").sentence


def test_a_plan_that_is_not_the_cheapest_has_an_exit_status_of_its_own(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_bytes(dearer())

    told = cli("check", str(file))

    assert (told.status, told.out) == (3, "")
    assert "is not proven to be the cheapest: the plan costs $" in told.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (changed(of_road(), CHANGES["a gallon less"]), "the certificate proves nothing: "),
        (b"\xff", "it is not text"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_proves_nothing_is_refused(cli: Cli, tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "certificate.json"
    if content is not None:
        file.write_bytes(content)

    assert told in cli("check", str(file)).sentence
