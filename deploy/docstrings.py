"""Print docstrings that lean on something that the reader does not see: they begin with a word such as `of` or `what`,
with `The same` or `None:`, or name only the error that is raised. Fail if there is one, tests included."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("domain", "ingress", "workers", "scheduler", "deploy", "tests")
LEANING = re.compile(
    r"[`,.:;]*((of|those|whose|what|likewise|as|that|by|where|which|who|to|than|how|whether|for|with|such|else|also"
    r"|so (many|much|long|often|soon|far)|the same|since then|until then|raises?)(?![\w'-])"
    r"|(none|null|empty|true|false|negative|0):)",
    re.I,
)
MAY_LEAN = re.compile(rf"""^\s*r?["']+\s*{LEANING.pattern}""", re.I | re.M)
"""Found in each file that has such a docstring, and in few others. To parse all files takes ten times as long."""


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring: of modules, classes, functions, fields and constants."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, " ".join(text.split())


def main() -> int:
    paths = [path for package in PACKAGES for path in sorted(Path(package).rglob("*.py"))]
    leaning = [
        (path, line, text)
        for path in paths
        if MAY_LEAN.search(source := path.read_text(encoding="utf-8"))
        for line, text in docstrings(source)
        if LEANING.match(text)
    ]
    for path, line, text in leaning:
        print(f"{path}:{line}: {text[:90]}")
    print(f"{len(leaning)} docstrings lean on what comes before them")
    return int(bool(leaning))


if __name__ == "__main__":
    sys.exit(main())
