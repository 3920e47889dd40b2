"""Each migration after the last release can run while that release serves: it neither locks long nor breaks it. Where
one has to, it says in `accepted` why that is all right."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from domain.migrations.effects import Effect, Work, created_table, effects_of
from domain.migrations.rendering import Migration, migrations
from tests.upgrades.last_release import last_release


def new_migrations() -> list[Migration]:
    everything = migrations()
    (pinned,) = (number for number, one in enumerate(everything) if one.revision == last_release().revision)
    return everything[pinned + 1 :]


def faults_of(migration: Migration) -> list[str]:
    """The faults of a migration, a sentence for each statement that it does not accept."""
    return faults_in(migration.statements(), migration.accepted)


def faults_in(written: Sequence[str], accepted: Mapping[str, str]) -> list[str]:
    statements = [" ".join(one.split()) for one in written if one not in ("BEGIN", "COMMIT")]
    made = {created_table(statement) for statement in statements} - {None}
    found = {statement: reasons for statement in statements if (reasons := list(_faults_of_statement(statement, made)))}
    for tables in _locked_together(written, made):
        found[", ".join(tables)] = ["these tables are locked together: give each a transaction (`in_own_transaction`)"]
    concurrent = [one for one in statements if "CONCURRENTLY" in one]
    if concurrent and any("lock_timeout" not in one for one in statements if one not in concurrent):
        found["CONCURRENTLY"] = ["it has no transaction, so it stands alone in its migration"]
    matched = {start for start in accepted for statement in found if statement.startswith(start)}
    left = [
        f"{statement}: {reason}"
        for statement, reasons in found.items()
        for reason in reasons
        if not any(statement.startswith(start) for start in matched)
    ]
    unneeded = sorted(accepted.keys() - matched)
    unexplained = [f"{start}: accepted without a reason" for start, why in accepted.items() if not why.strip()]
    return left + unexplained + [f"{start}: accepted, but nothing is wrong with it" for start in unneeded]


def _locked_together(written: Sequence[str], made: set[str | None]) -> Iterator[list[str]]:
    """The tables in use that one transaction keeps from others, where there are several."""
    tables: set[str] = set()
    for statement in [*written, "COMMIT"]:
        if statement == "COMMIT":
            if len(tables) > 1:
                yield sorted(tables)
            tables = set()
        tables |= {
            str(effect.table)
            for effect in effects_of(statement)
            if effect.table not in made and effect.lock.blocks in ("writes", "reads and writes")
        }


def _faults_of_statement(statement: str, made: set[str | None]) -> Iterator[str]:
    for effect in effects_of(statement):
        if effect.table not in made or effect.table is None:
            yield from _faults_of_effect(effect)


def _faults_of_effect(effect: Effect) -> Iterator[str]:
    if effect.breaks:
        yield f"the release before may fail: {effect.breaks}"
    if effect.work is Work.ROWS:
        yield "rows are changed by a back-fill, not inside the migration"
    elif effect.work in (Work.SCAN, Work.INDEX, Work.REWRITE) and effect.lock.blocks != "nothing":
        yield f"it {effect.work} while it blocks {effect.lock.blocks}"


@pytest.mark.parametrize("migration", new_migrations(), ids=lambda migration: migration.revision)
def test_a_new_migration_runs_beside_the_last_release(migration: Migration) -> None:
    assert faults_of(migration) == []


def test_all_migrations_follow_one_another() -> None:
    everything = migrations()

    assert len({one.revision for one in everything}) == len(everything)
    assert last_release().revision in {one.revision for one in everything}


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("ALTER TABLE routes DROP COLUMN a", "it still names the column"),
        ("ALTER TABLE routes RENAME COLUMN a TO b", "it still uses the old name"),
        ("ALTER TABLE routes RENAME TO trips", "it still uses the old name"),
        ("DROP TABLE former_names", "it still uses the table"),
        ("ALTER TABLE routes ADD COLUMN a INTEGER NOT NULL", "which has no default"),
        ("ALTER TABLE routes ALTER COLUMN a TYPE BIGINT", "the old type"),
        ("ALTER TABLE routes ALTER COLUMN a SET NOT NULL", "it may still write NULL"),
        ("CREATE INDEX i ON routes (a)", "it builds an index while it blocks writes"),
        ("CREATE UNIQUE INDEX CONCURRENTLY i ON routes (a)", "it may write values that are there already"),
        ("ALTER TABLE routes ADD CONSTRAINT c CHECK (a > 0)", "it reads the whole table while it blocks reads"),
        ("ALTER TABLE routes ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES routes (id)", "it reads the whole table"),
        ("UPDATE routes SET a = 1", "rows are changed by a back-fill"),
        ("ALTER TABLE a ADD COLUMN b UUID REFERENCES c (id)", "these tables are locked together"),
        ("DO $$ BEGIN END $$", "this statement is not known"),
    ],
)
def test_a_statement_that_locks_long_or_breaks_the_last_release_is_refused(statement: str, fault: str) -> None:
    assert any(fault in told for told in faults_in([statement], {}))
    start = statement[:12] if "together" not in fault else "a, c"
    assert faults_in([statement], {start: "a test says so"}) == []
    assert any("without a reason" in told for told in faults_in([statement], {start: " "}))


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (a INTEGER NOT NULL)", "CREATE INDEX i ON t (a)", "ALTER TABLE t ALTER COLUMN a SET NOT NULL"),
        ("ALTER TABLE routes ADD COLUMN a INTEGER",),
        ("ALTER TABLE routes ADD COLUMN a INTEGER DEFAULT 7 NOT NULL",),
        ("SET lock_timeout = 0", "CREATE INDEX CONCURRENTLY i ON routes (a)", "RESET lock_timeout"),
        ("ALTER TABLE routes ADD CONSTRAINT c CHECK (a > 0) NOT VALID",),
        ("ALTER TABLE routes VALIDATE CONSTRAINT c",),
    ],
    ids=lambda statements: statements[0],
)
def test_a_migration_that_only_adds_is_right(statements: tuple[str, ...]) -> None:
    assert faults_in(statements, {}) == []


def test_an_index_that_is_built_concurrently_stands_alone() -> None:
    together = ["ALTER TABLE routes ADD COLUMN a INTEGER", "CREATE INDEX CONCURRENTLY i ON routes (a)"]

    assert faults_in(together, {}) == ["CONCURRENTLY: it has no transaction, so it stands alone in its migration"]


def test_an_acceptance_that_nothing_needs_is_refused() -> None:
    stale = {"ALTER TABLE routes DROP": "gone"}

    assert faults_in(["ALTER TABLE routes ADD COLUMN a INTEGER"], stale) == [
        "ALTER TABLE routes DROP: accepted, but nothing is wrong with it"
    ]
