"""The plan of a migration tells the truth: PostgreSQL takes the locks and does the work that `effects` tells."""

from collections.abc import Iterator

import pytest
from alembic import command

from domain.database.connections import Connection
from domain.migrations import alembic_config, engine
from domain.migrations.effects import Effect, Lock, Work, effects_of, effects_on, split
from domain.migrations.plan import read_catalog
from domain.migrations.rendering import migrations
from tests.conftest import make_database
from tests.upgrades.observing import held_locks, reported_work, tables, told_locks

EXAMPLES = [
    "ALTER TABLE visits ADD COLUMN noted VARCHAR",
    "ALTER TABLE visits ADD COLUMN noted VARCHAR DEFAULT 'x' NOT NULL",
    "ALTER TABLE visits ADD COLUMN noted TIMESTAMPTZ DEFAULT now()",
    "ALTER TABLE visits ADD COLUMN noted TIMESTAMPTZ DEFAULT clock_timestamp()",
    "ALTER TABLE visits ADD COLUMN noted BIGINT GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE visits ADD COLUMN noted BIGINT UNIQUE",
    "ALTER TABLE visits ADD COLUMN noted UUID REFERENCES companies (id)",
    "ALTER TABLE visits DROP COLUMN stored_at",
    "ALTER TABLE visits RENAME COLUMN stored_at TO kept_at",
    "ALTER TABLE visits RENAME TO calls",
    "ALTER TABLE routes ALTER COLUMN distance_miles TYPE numeric",
    "ALTER TABLE routes ALTER COLUMN reference SET NOT NULL",
    "ALTER TABLE routes ALTER COLUMN external_id DROP NOT NULL",
    "ALTER TABLE routes ALTER COLUMN reference SET DEFAULT ''",
    "ALTER TABLE companies ALTER COLUMN stop_cost DROP DEFAULT",
    "ALTER TABLE routes ADD CONSTRAINT c CHECK (attempts >= 0)",
    "ALTER TABLE routes ADD CONSTRAINT c CHECK (attempts >= 0) NOT VALID",
    "ALTER TABLE routes ADD CONSTRAINT c UNIQUE (id, status)",
    "ALTER TABLE routes ADD CONSTRAINT c FOREIGN KEY (vehicle_id) REFERENCES vehicles (id) NOT VALID",
    "ALTER TABLE routes ADD CONSTRAINT c FOREIGN KEY (vehicle_id) REFERENCES vehicles (id)",
    "ALTER TABLE companies DROP CONSTRAINT map_link",
    "ALTER TABLE routes ADD COLUMN a INTEGER, ALTER COLUMN reference SET NOT NULL, ADD CHECK (a IN (1, 2))",
    "ALTER TABLE audit_log DROP CONSTRAINT audit_log_company_id_fkey",
    "ALTER TABLE audit_log DROP COLUMN company_id CASCADE",
    "ALTER TABLE routes ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE routes FORCE ROW LEVEL SECURITY",
    "ALTER TABLE routes SET (autovacuum_vacuum_scale_factor = 0.1)",
    "ALTER TABLE routes DISABLE TRIGGER count_routes_on_insert",
    "CREATE POLICY p ON routes USING (company_id IS NOT NULL)",
    "CREATE INDEX i ON routes (status)",
    "CREATE UNIQUE INDEX i ON routes (id)",
    "DROP INDEX visits_by_vehicle",
    "DROP TABLE former_names",
    "TRUNCATE former_names",
    "CREATE TABLE t (id UUID PRIMARY KEY, company_id UUID REFERENCES companies (id), n UUID REFERENCES t (id))",
    "CREATE TABLE positions_of_tests PARTITION OF positions FOR VALUES IN ('tests')",
    "CREATE TRIGGER t AFTER INSERT ON visits FOR EACH STATEMENT EXECUTE FUNCTION count_routes_on_insert()",
    "DROP TRIGGER count_routes_on_insert ON routes",
    "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$",
    "COMMENT ON TABLE routes IS 'a; b'",
    "GRANT SELECT ON routes TO PUBLIC",
    "UPDATE visits SET stored_at = now() WHERE false",
    "DELETE FROM visits WHERE false",
    "INSERT INTO queue_pauses SELECT 'a', now(), 'b', 'c'",
    "INSERT INTO queue_pauses VALUES ('a', now(), 'b', 'c')",
]


@pytest.fixture(scope="module")
def migrated() -> Iterator[Connection]:
    with Connection.connect(make_database("effects"), options="-c client_min_messages=debug1") as connection:
        yield connection


@pytest.mark.parametrize("sql", EXAMPLES)
def test_a_statement_locks_and_does_what_the_rules_tell(migrated: Connection, sql: str) -> None:
    known, notices = tables(migrated), []
    catalog = read_catalog(migrated, known.values())
    migrated.rollback()
    migrated.add_notice_handler(handler := lambda notice: notices.append(notice.message_primary or ""))
    try:
        with migrated.transaction(force_rollback=True):
            migrated.execute(sql)
            held = held_locks(migrated, known)
    finally:
        migrated.remove_notice_handler(handler)

    assert told_locks([sql], catalog) == held
    told, reported = {effect.work for effect in effects_on(catalog, sql)}, reported_work(notices)
    if Work.REWRITE in told or sql.startswith(("CREATE TABLE", "TRUNCATE")):
        reported.discard(Work.INDEX)  # those of the table anew, or of an empty one
    assert told & {Work.REWRITE, Work.SCAN, Work.INDEX} == reported


def test_every_migration_locks_what_its_plan_tells() -> None:
    url = make_database("observed", template="template1")
    before = None
    for migration in migrations():
        statements = [one for one in migration.statements() if one not in ("BEGIN", "COMMIT")]
        with Connection.connect(url) as connection:
            known = tables(connection)
            catalog = read_catalog(connection, known.values())
            for statement in statements:
                # indexes built concurrently have no transaction; roles belong to the server, which has them already
                if "CONCURRENTLY" not in statement and not statement.startswith(("CREATE ROLE", "GRANT fuelroute_")):
                    connection.execute(statement.encode())
            held = held_locks(connection, known)
            connection.rollback()
        transactional = [statement for statement in statements if "CONCURRENTLY" not in statement]
        assert told_locks(transactional, catalog) == held, migration.revision
        with engine(url).connect() as connection:
            command.upgrade(alembic_config(connection), migration.revision)
        before = migration.revision
    assert before is not None


def test_an_unknown_statement_is_taken_for_the_worst() -> None:
    (effect,) = effects_of("DO $$ BEGIN PERFORM 1; END $$")

    assert (effect.table, effect.lock, effect.work) == (None, Lock.ACCESS_EXCLUSIVE, Work.UNKNOWN)
    (effect,) = effects_of("ALTER TABLE routes CLUSTER ON routes_pkey")
    assert (effect.table, effect.lock, effect.work) == ("routes", Lock.ACCESS_EXCLUSIVE, Work.UNKNOWN)


@pytest.mark.parametrize(
    ("sql", "effect"),
    [
        ("CREATE INDEX CONCURRENTLY i ON a (b)", Effect("a", Lock.SHARE_UPDATE_EXCLUSIVE, Work.INDEX)),
        ("DROP INDEX CONCURRENTLY i", Effect(None, Lock.SHARE_UPDATE_EXCLUSIVE, Work.CATALOG, None, "i")),
        ("alter table only public.a validate constraint c", Effect("a", Lock.SHARE_UPDATE_EXCLUSIVE, Work.SCAN)),
        ('-- note\nALTER TABLE "a" ADD COLUMN "b;c" INTEGER', Effect("a", Lock.ACCESS_EXCLUSIVE, Work.CATALOG)),
    ],
)
def test_forms_that_no_transaction_can_show_are_known_too(sql: str, effect: Effect) -> None:
    assert effects_of(sql) == [effect]


def test_a_text_is_split_at_separators_outside_of_quotes_and_parentheses() -> None:
    assert split("a 'x;y'; $f$ b; c $f$ ; (d;e) -- ;\n; \"f;\"", ";") == [
        "a 'x;y'",
        "$f$ b; c $f$",
        "(d;e) -- ;",
        '"f;"',
    ]
