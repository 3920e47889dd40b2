"""`fuelroute check` says what a certificate proves, or in one sentence why it proves nothing."""

from pathlib import Path

import pytest

from tests.deploy.commands import Cli
from tests.domain.planning.test_certificates import CHANGES, changed, of_road


def test_a_certificate_is_checked_from_a_file(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_bytes(of_road())

    told = cli("check", str(file), "--json").document

    assert told["proven"].startswith("The plan costs $")
    assert cli("check", str(file)).out.split()[-1] == told["sha256"]


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
