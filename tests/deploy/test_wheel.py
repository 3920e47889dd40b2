"""The wheel holds everything that runs, and nothing that only rehearses, builds or checks."""

from functools import cache

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.domain.test_import_order import REPOSITORY, imports, modules

PACKAGES = ("deploy", "domain", "ingress", "scheduler", "workers")

BUILDERS = {"domain.roads.build_highways", "domain.roads.build_states"}
"""Only `fuelroute roads` imports them; it says that they need a checkout."""


@cache
def shipped() -> frozenset[str]:
    return frozenset(file.distribution_path for file in WheelBuilder(str(REPOSITORY)).recurse_included_files())


@pytest.mark.slow
def test_no_module_that_ships_imports_one_that_does_not() -> None:
    places = {
        name: str(path.relative_to(REPOSITORY)) for package in PACKAGES for name, path in modules(package).items()
    }
    left_out = {name for name, path in places.items() if path not in shipped()}
    pairs = {pair for package in PACKAGES for pair in imports(package)}
    assert {imported for module, imported in pairs if module not in left_out and imported in left_out} == BUILDERS


@pytest.mark.parametrize("part", ["rehears", "faults.py", "dashboards.py", "/build_", "base_map/build", "/lint"])
def test_rehearsals_and_builders_do_not_ship(part: str) -> None:
    assert [path for path in sorted(shipped()) if part in path] == []
