"""The names of actions: each is recorded in one place, so a page and a command cannot keep different entries."""

import ast
from collections import Counter
from pathlib import Path
from typing import get_args

from domain.audit.actions import Action, QueueAction, RecordAction, action_in_words

REPOSITORY = Path(__file__).parents[3]
SHARED = {*get_args(RecordAction), *get_args(QueueAction)}
"""Names without a subject, which are everyday words elsewhere."""
NAMED = set(get_args(Action)) - SHARED


def modules_that_name(*packages: str) -> Counter[str]:
    """The number of modules that name each action."""
    found: Counter[str] = Counter()
    for package in packages:
        for path in (REPOSITORY / package).rglob("*.py"):
            if path == REPOSITORY / "domain" / "audit" / "actions.py":
                continue
            texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
            found.update(NAMED & {text for text in texts if isinstance(text, str)})
    return found


def test_each_action_is_recorded_in_one_module_of_the_domain() -> None:
    assert modules_that_name("domain") == dict.fromkeys(NAMED, 1)


def test_pages_commands_and_workers_record_no_action() -> None:
    assert not modules_that_name("ingress", "deploy", "workers", "scheduler")


def test_actions_are_told_in_words() -> None:
    assert action_in_words("users.change_role") == "users: change role"
    assert action_in_words("export contacts") == "export contacts"
