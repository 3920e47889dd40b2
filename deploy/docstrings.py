"""Print docstrings that begin with a word such as `of` or `what`: they lean on something that the reader does not see.
Fail when they are more than MOST_PERCENT of all docstrings, tests included."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("domain", "ingress", "workers", "scheduler", "deploy", "tests")
LEANING = re.compile(
    r"[`,.:;]*(of|those|whose|what|likewise|as|that|by|where|which|who|to|than|how|whether|for|with)(?![\w'-])", re.I
)
MOST_PERCENT = 3


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring: of modules, classes, functions, fields and constants."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.lineno, " ".join(text.split())


def main() -> int:
    paths = [path for package in PACKAGES for path in sorted(Path(package).rglob("*.py"))]
    found = [(path, line, text) for path in paths for line, text in docstrings(path)]
    leaning = [one for one in found if LEANING.match(one[2])]
    for path, line, text in leaning:
        print(f"{path}:{line}: {text[:90]}")
    percent = 100 * len(leaning) / len(found)
    print(f"{len(leaning)} of {len(found)} docstrings lean on what comes before them: {percent:.1f} %")
    return int(percent > MOST_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
