"""The wheel holds everything that runs, and nothing that only rehearses, builds or checks."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

REPOSITORY = Path(__file__).parents[2]

BUILDERS = {"domain.roads.build_highways", "domain.roads.build_states"}
"""Only `fuelroute roads` imports them; it says that they need a checkout."""


@cache
def shipped() -> frozenset[str]:
    return frozenset(file.distribution_path for file in WheelBuilder(str(REPOSITORY)).recurse_included_files())


def modules(paths: frozenset[str]) -> Iterator[str]:
    return (
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths if path[-3:] == ".py"
    )


def imported_by(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_that_ships_imports_one_that_does_not() -> None:
    ours = set(modules(frozenset(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob("[!.t]*/**/*.py"))))
    left_out = ours - set(modules(shipped()))
    wanted = {name for path in shipped() if path.endswith(".py") for name in imported_by(path)}
    assert left_out >= BUILDERS
    assert wanted & left_out == BUILDERS


@pytest.mark.parametrize("part", ["rehears", "faults.py", "dashboards.py", "/build_", "base_map/build", "/lint"])
def test_rehearsals_and_builders_do_not_ship(part: str) -> None:
    assert [path for path in sorted(shipped()) if part in path] == []
