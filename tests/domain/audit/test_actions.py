"""The names of actions: each is recorded in one module, so a page and a command cannot keep different entries."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

from domain.audit.entries import QueueAction, RecordAction, action_in_words

REPOSITORY = Path(__file__).parents[3]


def named_in(*packages: str) -> dict[str, set[str]]:
    """The modules that name each action, by its name."""
    found = defaultdict(set)
    for path in (path for package in packages for path in (REPOSITORY / package).rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Action(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Action":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: the name is a text"
                found[str(name.value)].add(str(path))
    return found


def test_each_action_is_recorded_in_one_module_of_the_domain() -> None:
    named = named_in("domain")
    assert len(named) > 50
    assert {name: modules for name, modules in named.items() if len(modules) > 1} == {}


def test_a_name_is_a_subject_and_a_verb() -> None:
    assert [name for name in named_in("domain") if not re.fullmatch(r"[a-z_]+\.[a-z_]+", name)] == []
    assert all("." not in name for name in (*get_args(RecordAction), *get_args(QueueAction)))


def test_pages_commands_and_workers_record_no_action() -> None:
    assert named_in("ingress", "deploy", "workers", "scheduler") == {}


def test_actions_are_told_in_words() -> None:
    assert action_in_words("users.change_role") == "users: change role"
    assert action_in_words("export contacts") == "export contacts"
