"""The order of imports: the folders of `domain` stand in one order, and the packages above it know only `domain`."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

SHARED = "shared"
"""The modules directly in `domain`, and its `SHARED_FOLDERS`: all subjects stand on them."""

SHARED_FOLDERS = {"database", "telemetry", "tables", "migrations"}

ORDER = (
    SHARED,
    "audit",
    "queue",
    "contract",
    "files",
    "languages",
    "roads",
    "accounts",
    "fleet",
    "stations",
    "driven_lanes",
    "burn",
    "planning",
    "telematics",
    "connectors",
    "messages",
    "signing",
    "savings",
    "fills",
    "routes",
    "detention",
    "driver_page",
    "compliance",
    "sandbox",
    "webhooks",
    "needs",
    "notices",
    "ifta",
    "previews",
    "replay",
    "requests",
    "operations",
    "housekeeping",
    "moving",
)
"""Each folder imports only itself and those before it."""

SHELVES = ("", "intake", "plans", "progress", "reading")
"""The folders in `domain/routes`, each of which imports only itself and those before it; "" stands for the files in
it."""

OWN_DISTRIBUTION = "deploy.clients.python.fuelroute_client"
"""Its modules import one another relatively: it is installed by another name too."""


@cache
def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name, packages included."""
    found = {}
    for path in sorted((REPOSITORY / package).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(package: str) -> list[tuple[str, str]]:
    """(module, what it imports), for imports inside functions as well. No module imports relatively."""
    return list(_imports(package))


def statements(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements among and within these, without their expressions, which are most of a syntax tree."""
    for node in nodes:
        yield node
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from statements(getattr(node, part, ()))


def _imports(package: str) -> Iterator[tuple[str, str]]:
    for module, path in modules(package).items():
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.Import):
                yield from ((module, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                if module.startswith(OWN_DISTRIBUTION) and node.level == 1:
                    continue
                assert node.level == 0, f"{module} imports relatively"
                assert node.module is not None
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    yield module, name if name in modules(name.partition(".")[0]) else node.module


def cycles(package: str) -> set[frozenset[str]]:
    """The modules of a package that import one another, directly or by way of others."""
    reached = {module: {module} for module in modules(package)}
    growing = True
    while growing:
        before = sum(map(len, reached.values()))
        for module, imported in imports(package):
            if module != imported:
                reached[module] |= reached.get(imported, set())
        growing = sum(map(len, reached.values())) > before
    return {
        frozenset(one for one in others if module in reached[one])
        for module, others in reached.items()
        if any(module in reached[one] for one in others - {module})
    }


def imported_packages(package: str) -> set[str]:
    return {imported.partition(".")[0] for _, imported in imports(package)}


def folder(module: str) -> str:
    """The folder of a module of `domain`: `domain.fleet.matching` -> `fleet`, `domain.clock` -> SHARED."""
    name = module.split(".")[1]
    return name if name in ORDER else SHARED


def against_the_order() -> set[tuple[str, str]]:
    return {
        (module.removeprefix("domain."), imported.removeprefix("domain."))
        for module, imported in imports("domain")
        if imported.startswith("domain.") and ORDER.index(folder(imported)) > ORDER.index(folder(module))
    }


def test_each_folder_of_the_domain_stands_in_the_order() -> None:
    folders = {path.parent.name for path in (REPOSITORY / "domain").glob("*/__init__.py")}
    assert folders - SHARED_FOLDERS == set(ORDER) - {SHARED}


def test_a_folder_of_the_domain_imports_only_those_before_it() -> None:
    assert against_the_order() == set()


def shelf(module: str) -> str:
    """`domain.routes.plans.reviews` -> `plans`, `domain.routes.events` -> ""."""
    return "" if module.count(".") < 3 else module.split(".")[2]


def test_a_shelf_of_the_routes_imports_only_those_before_it() -> None:
    pairs = [pair for pair in imports("domain") if all(module.startswith("domain.routes.") for module in pair)]
    assert {pair for pair in pairs if SHELVES.index(shelf(pair[1])) > SHELVES.index(shelf(pair[0]))} == set()


@pytest.mark.parametrize(("one", "other"), list(permutations(("ingress", "workers", "scheduler", "connectors"), 2)))
def test_the_packages_above_the_domain_do_not_import_one_another(one: str, other: str) -> None:
    assert other not in imported_packages(one)


@pytest.mark.parametrize("above", ["ingress", "workers", "scheduler", "connectors", "deploy"])
def test_the_domain_imports_none_of_the_packages_above_it(above: str) -> None:
    assert above not in imported_packages("domain")


@pytest.mark.parametrize("package", ["domain", "ingress", "workers", "scheduler", "connectors", "deploy"])
def test_no_package_imports_tests(package: str) -> None:
    assert "tests" not in imported_packages(package)


INGRESS = {
    "http": {"http"},
    "previews": {"http", "previews"},
    "api": {"http", "previews", "api"},
    "docs": {"http", "api", "docs"},
    "driver": {"http", "api", "driver"},
    "console": {"http", "previews", "console"},
    "": {"http", "api", "docs", "driver", ""},
}
"""The folders of `ingress` that each of them imports; "" is what stands directly in it."""


def ingress_folder(module: str) -> str:
    folders = {path.parent.name for path in (REPOSITORY / "ingress").glob("*/__init__.py")}
    assert folders == set(INGRESS) - {""}
    name = module.split(".")[1] if "." in module else ""
    return name if name in folders else ""


def test_a_folder_of_the_ingress_imports_only_those_below_it() -> None:
    pairs = [pair for pair in imports("ingress") if pair[1].startswith("ingress.")]
    assert {pair for pair in pairs if ingress_folder(pair[1]) not in INGRESS[ingress_folder(pair[0])]} == set()


@pytest.mark.parametrize("package", ["domain", "ingress", "workers", "scheduler", "deploy"])
def test_no_modules_import_one_another(package: str) -> None:
    """An import inside a function counts too: move what both need into a module that imports neither."""
    assert cycles(package) == set()


def test_only_the_application_of_the_console_imports_its_pages() -> None:
    pages = "ingress.console.pages"
    above = {
        module
        for module, imported in imports("ingress")
        if imported.startswith(f"{pages}.") and not module.startswith(pages)
    }
    assert above == {"ingress.console.app"}
