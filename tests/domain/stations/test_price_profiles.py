"""The profiles of price files that are built in."""

from pathlib import Path

from domain.files.reading import recognize
from domain.stations.price_profiles import BUILT_IN, CHAINS_OF_CODE_SETS, PRICE_FIELDS

CASES = Path(__file__).parents[2] / "cases" / "prices"


def test_every_profile_has_a_case() -> None:
    files = [path for path in CASES.rglob("*") if path.suffix in (".csv", ".xlsx")]
    assert {recognize(path, list(BUILT_IN.values()), PRICE_FIELDS).name for path in files} == set(BUILT_IN)


def test_the_brand_of_a_profile_tells_whose_its_codes_are() -> None:
    assert {
        **{"loves": {"loves"}, "pilot": {"pilot", "flyingj"}, "ta": {"ta", "petro"}},
        "caseys": {"casey"},
    } == CHAINS_OF_CODE_SETS
