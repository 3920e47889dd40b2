"""Each type of webhook event is declared in `EVENT_TYPES`, captured by the database, and explained in the guide."""

import re
from pathlib import Path

import ingress.docs
from domain.migrations.rendering import migrations
from domain.webhooks.events import EVENT_TYPES, TEST


def test_the_database_captures_the_declared_types() -> None:
    statements = [statement for migration in migrations() for statement in migration.statements()]
    captured = {"stop.detained"}
    assert any("'stop.detained' AS type" in one for one in statements)
    for function in ("webhook_event_type", "webhook_answer_type"):
        newest = [one for one in statements if one.startswith(f"CREATE OR REPLACE FUNCTION {function}(")][-1]
        captured |= set(re.findall(r"THEN '(.+?)'", newest))

    assert captured == set(EVENT_TYPES)


def test_the_guide_explains_each_type() -> None:
    guide = Path(ingress.docs.__file__).with_name("guides") / "webhooks.md"
    (table,) = re.findall(r"\| `type` \| when \|\n(?:\|.+\n)+", guide.read_text())

    explained = [name for row in table.splitlines() for name in re.findall(r"`(.+?)`", row.split("|")[1])]
    assert explained == ["type", *EVENT_TYPES, TEST]
