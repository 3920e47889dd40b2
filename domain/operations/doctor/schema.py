"""Checks of the schema: its revision, parts that are missing, and guards of the data that are switched off."""

from collections.abc import Iterator

from domain.database.statements import Scalar
from domain.database.visibility import SERVICE_ROLE
from domain.migrations.drift import read_schema_state
from domain.operations.doctor.checks import Examined, Finding, NoSchema, problem

_COUNTING = tuple(f"count_routes_on_{event}" for event in ("insert", "update", "delete", "truncate"))
"""The triggers that count routes; `routes/reading/counts.py` describes them."""

_MISSING_TRIGGERS = Scalar(
    str,
    "SELECT expected FROM unnest(%s::text[]) AS expected WHERE NOT EXISTS ("
    "SELECT FROM pg_trigger WHERE tgrelid = 'routes'::regclass AND tgname = expected) ORDER BY 1",
)
_OFF = Scalar(
    str,
    """
    SELECT DISTINCT c.relname || ': ' || coalesce(k.conname, t.tgname)
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
    WHERE c.relnamespace = 'public'::regnamespace AND t.tgenabled NOT IN ('O', 'A')
      AND (t.tgenabled, t.tgname) <> ('R', 'note_replicated_change_of_route')
    UNION
    SELECT conrelid::regclass::text || ': ' || conname FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace AND NOT convalidated
    ORDER BY 1
    """,
)

_WITHOUT_WALL = Scalar(
    str,
    """
    SELECT DISTINCT p.tablename::text || CASE WHEN c.relrowsecurity THEN ': ' || p.policyname ELSE '' END
    FROM pg_policies p JOIN pg_class c ON c.oid = format('%%I.%%I', p.schemaname, p.tablename)::regclass
    WHERE p.schemaname = 'public' AND NOT (c.relrowsecurity AND %s::text = ANY(p.roles::text[]))
    ORDER BY 1
    """,
)


def check_schema(seen: Examined) -> Iterator[Finding]:
    """Checks the schema. Raises NoSchema for a database without one: then nothing else can be checked."""
    state = read_schema_state(seen.settings.require_direct_url())
    if state.revision is None:
        raise NoSchema("the database has no Fuelroute schema: run `fuelroute migrate` first")
    if state.revision != state.newest:
        yield problem(
            f"The schema is at revision {state.revision}, this release expects {state.newest}",
            "Run `fuelroute migrate`; or run the doctor of the release that serves",
        )
    triggers = _MISSING_TRIGGERS.all(seen.connection, (list(_COUNTING),))
    missing = state.missing + [f"trigger {trigger}" for trigger in triggers]
    if missing:
        yield problem(
            f"The schema lacks parts that this release expects: {len(missing)}",
            "Find out who removed them, and make them again as domain/migrations/versions has them",
            tuple(missing[: seen.most_examples]),
        )
    open_tables = _WITHOUT_WALL.all(seen.connection, (SERVICE_ROLE,))
    if open_tables:
        yield problem(
            "Row-level security is switched off: a query that forgets its company would see others' data",
            f"ALTER TABLE ... ENABLE ROW LEVEL SECURITY; its policies are for the role {SERVICE_ROLE}",
            tuple(open_tables[: seen.most_examples]),
        )
    off = _OFF.all(seen.connection)
    if off:
        yield problem(
            "Triggers are disabled, or constraints are not validated: nothing keeps counts and references right",
            "ALTER TABLE ... ENABLE TRIGGER ALL; ALTER TABLE ... VALIDATE CONSTRAINT ...",
            tuple(off[: seen.most_examples]),
        )
