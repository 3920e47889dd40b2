"""A docstring that begins with `of`, `whose` or `what` leans on something that the reader does not see. This check prints
such docstrings, and fails when they are more than MOST_PERCENT of the whole tree, tests included."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LEANING = set("of those whose what likewise as that by where which who to than how whether for with".split())
MOST_PERCENT = 3.0


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the text of each docstring: of modules, classes, functions, fields and constants."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if text.strip():
                    yield statement.lineno, " ".join(text.split())


def main() -> int:
    tracked = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    found = [(path, line, text) for path in tracked.split() for line, text in docstrings(Path(path))]
    leaning = [one for one in found if one[2].split()[0].lower().strip("`,.:;") in LEANING]
    for path, line, text in leaning:
        print(f"{path}:{line}: {text[:90]}")
    percent = 100 * len(leaning) / max(1, len(found))
    print(f"{len(leaning)} of {len(found)} docstrings lean on what comes before them: {percent:.1f} %")
    return int(percent > MOST_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
