"""One word, one meaning: each public name of `domain` is defined in one module, so a search leads to one place."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.domain.test_import_order import modules

EXCEPTIONS: dict[str, str] = {}
"""Names with several homes, and the reason of each."""
MOST_EXCEPTIONS = 12


def public_names(tree: ast.Module) -> Iterator[str]:
    """Classes, functions, constants and type aliases of a module, without type variables and its logger."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign) and not _makes_type_variable(node.value):
            names = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        elif isinstance(node, ast.AnnAssign):
            names = [ast.unparse(node.target)]
        else:
            names = []
        yield from (name for name in names if name != "log" and not name.startswith("_"))


def _makes_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"


def homes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for module, path in modules("domain").items():
        if not module.startswith("domain.migrations"):
            for name in sorted(set(public_names(ast.parse(path.read_text(encoding="utf-8"))))):
                found[name].append(module)
    return found


def test_a_public_name_has_one_home() -> None:
    assert {name: at for name, at in homes().items() if len(at) > 1 and name not in EXCEPTIONS} == {}


def test_the_exceptions_are_few_and_each_is_needed() -> None:
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    assert {name for name in EXCEPTIONS if len(homes().get(name, [])) < 2} == set()
