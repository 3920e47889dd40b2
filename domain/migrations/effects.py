"""The effects of a migration's statement: the tables that it locks, the work that it does while it holds the lock, and
what the release before cannot live with.

They are derived from the SQL alone, so no server is asked. `fuelroute migrate --plan` prints them. `tests/upgrades`
compares them with the locks that PostgreSQL really takes, and refuses a new migration that locks long or breaks the
release before."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Lock(StrEnum):
    """A lock of a whole table, by PostgreSQL's name."""

    NONE = "none"
    ROW_EXCLUSIVE = "ROW EXCLUSIVE"
    SHARE_UPDATE_EXCLUSIVE = "SHARE UPDATE EXCLUSIVE"
    SHARE = "SHARE"
    SHARE_ROW_EXCLUSIVE = "SHARE ROW EXCLUSIVE"
    ACCESS_EXCLUSIVE = "ACCESS EXCLUSIVE"

    @property
    def blocks(self) -> str:
        """The requests and jobs that wait while it is held."""
        match self:
            case Lock.NONE | Lock.SHARE_UPDATE_EXCLUSIVE:
                return "nothing"
            case Lock.ROW_EXCLUSIVE:
                return "writes of the same rows"
            case Lock.SHARE | Lock.SHARE_ROW_EXCLUSIVE:
                return "writes"
            case Lock.ACCESS_EXCLUSIVE:
                return "reads and writes"


class Work(StrEnum):
    """The work of a statement. All kinds but the first take longer for a larger table."""

    CATALOG = "changes the catalog only"
    SCAN = "reads the whole table"
    INDEX = "builds an index"
    REWRITE = "writes the whole table anew"
    ROWS = "changes rows"
    UNKNOWN = "unknown"


class Effect(NamedTuple):
    """One table that a statement locks. `table` is None where the SQL names none; a lock of an index then has
    `index_of`, and counts as a lock of the index's table."""

    table: str | None
    lock: Lock
    work: Work
    breaks: str | None = None
    """Why the release before may fail after this change; None if it cannot."""
    index_of: str | None = None


class ForeignKey(NamedTuple):
    """A foreign key that the database has."""

    table: str
    name: str
    columns: list[str]
    referenced: str


class Catalog(NamedTuple):
    """The parts of a database's catalog that the SQL of a migration does not tell."""

    tables: Collection[str]
    index_tables: Mapping[str, str]
    foreign_keys: Sequence[ForeignKey]


class _Rule(NamedTuple):
    pattern: str
    lock: Lock
    work: Work = Work.CATALOG
    breaks: str | None = None


_NAME = r'"?(?:\w+"?\."?)?(?P<table>\w+)"?'
_UNTOLD = "this statement is not known: say what it locks and breaks"

_ACTIONS = (
    _Rule(r"ADD COLUMN .*\b(GENERATED|SMALLSERIAL|SERIAL|BIGSERIAL)\b", Lock.ACCESS_EXCLUSIVE, Work.REWRITE),
    _Rule(
        r"ADD COLUMN (?!.*\bDEFAULT\b).*\bNOT NULL",
        Lock.ACCESS_EXCLUSIVE,
        Work.SCAN,
        "it inserts rows without the new column, which has no default",
    ),
    _Rule(r"ADD COLUMN .*\bDEFAULT (?!\(?now\(\))[^,]*\w\(", Lock.ACCESS_EXCLUSIVE, Work.REWRITE),
    _Rule(r"ADD COLUMN .*\b(UNIQUE|PRIMARY KEY)\b", Lock.ACCESS_EXCLUSIVE, Work.INDEX),
    _Rule(r"ADD COLUMN .*\bCHECK\b", Lock.ACCESS_EXCLUSIVE, Work.SCAN),
    _Rule(r"ADD COLUMN ", Lock.ACCESS_EXCLUSIVE),
    _Rule(r"DROP COLUMN ", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "it still names the column"),
    _Rule(r"RENAME CONSTRAINT ", Lock.ACCESS_EXCLUSIVE),
    _Rule(r"RENAME ", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "it still uses the old name"),
    _Rule(
        r"ALTER COLUMN \S+ (SET DATA )?TYPE ", Lock.ACCESS_EXCLUSIVE, Work.REWRITE, "it reads and writes the old type"
    ),
    _Rule(r"ALTER COLUMN \S+ SET NOT NULL", Lock.ACCESS_EXCLUSIVE, Work.SCAN, "it may still write NULL"),
    _Rule(r"ALTER COLUMN \S+ DROP NOT NULL", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "it may read NULL where none was"),
    _Rule(r"ALTER COLUMN \S+ DROP DEFAULT", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "it may rely on the default"),
    _Rule(r"ALTER COLUMN \S+ SET DEFAULT", Lock.ACCESS_EXCLUSIVE),
    _Rule(r"ALTER COLUMN \S+ SET STATISTICS", Lock.SHARE_UPDATE_EXCLUSIVE),
    _Rule(r"ADD (CONSTRAINT \S+ )?(UNIQUE|PRIMARY KEY) USING INDEX", Lock.ACCESS_EXCLUSIVE),
    _Rule(
        r"ADD (CONSTRAINT \S+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)",
        Lock.ACCESS_EXCLUSIVE,
        Work.INDEX,
        "it may write values that are there already",
    ),
    _Rule(r"ADD (CONSTRAINT \S+ )?FOREIGN KEY.* NOT VALID", Lock.SHARE_ROW_EXCLUSIVE),
    _Rule(r"ADD (CONSTRAINT \S+ )?FOREIGN KEY", Lock.SHARE_ROW_EXCLUSIVE, Work.SCAN),
    _Rule(r"ADD (CONSTRAINT \S+ )?CHECK.* NOT VALID", Lock.ACCESS_EXCLUSIVE),
    _Rule(r"ADD (CONSTRAINT \S+ )?CHECK", Lock.ACCESS_EXCLUSIVE, Work.SCAN),
    _Rule(r"VALIDATE CONSTRAINT ", Lock.SHARE_UPDATE_EXCLUSIVE, Work.SCAN),
    _Rule(r"DROP CONSTRAINT ", Lock.ACCESS_EXCLUSIVE),
    _Rule(
        r"FORCE ROW LEVEL SECURITY",
        Lock.ACCESS_EXCLUSIVE,
        Work.CATALOG,
        "it sets no companies for its transactions, and as the owner it would see no rows",
    ),
    _Rule(r"(ENABLE|DISABLE|NO FORCE) ROW LEVEL SECURITY", Lock.ACCESS_EXCLUSIVE),
    _Rule(r"(ENABLE|DISABLE) (REPLICA |ALWAYS )?TRIGGER ", Lock.SHARE_ROW_EXCLUSIVE),
    _Rule(r"(SET|RESET) \((autovacuum|toast|fillfactor|parallel)\w*", Lock.SHARE_UPDATE_EXCLUSIVE),
    _Rule(r"OWNER TO ", Lock.ACCESS_EXCLUSIVE),
)
"""The actions of ALTER TABLE. The first rule that matches counts."""

_STATEMENTS = (
    _Rule(
        rf"CREATE UNIQUE INDEX (?!CONCURRENTLY).*? ON (ONLY )?{_NAME}",
        Lock.SHARE,
        Work.INDEX,
        "it may write values that are there already",
    ),
    _Rule(
        rf"CREATE UNIQUE INDEX CONCURRENTLY .*? ON {_NAME}",
        Lock.SHARE_UPDATE_EXCLUSIVE,
        Work.INDEX,
        "it may write values that are there already",
    ),
    _Rule(rf"CREATE INDEX CONCURRENTLY .*? ON {_NAME}", Lock.SHARE_UPDATE_EXCLUSIVE, Work.INDEX),
    _Rule(rf"CREATE INDEX .*? ON (ONLY )?{_NAME}", Lock.SHARE, Work.INDEX),
    _Rule(r"DROP INDEX CONCURRENTLY (IF EXISTS )?(\w+\.)?(?P<index>\w+)", Lock.SHARE_UPDATE_EXCLUSIVE),
    _Rule(r"DROP INDEX (IF EXISTS )?(\w+\.)?(?P<index>\w+)", Lock.ACCESS_EXCLUSIVE),
    _Rule(rf"CREATE TABLE .*? PARTITION OF {_NAME}", Lock.ACCESS_EXCLUSIVE),
    _Rule(rf"DROP TABLE (IF EXISTS )?{_NAME}", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "it still uses the table"),
    _Rule(rf"TRUNCATE (TABLE )?{_NAME}", Lock.ACCESS_EXCLUSIVE, Work.CATALOG, "its data is gone"),
    _Rule(rf"(CREATE|ALTER|DROP) POLICY .*? ON {_NAME}", Lock.ACCESS_EXCLUSIVE),
    _Rule(rf"CREATE (OR REPLACE )?(CONSTRAINT )?TRIGGER .*? ON {_NAME}", Lock.SHARE_ROW_EXCLUSIVE),
    _Rule(rf"DROP TRIGGER .*? ON {_NAME}", Lock.ACCESS_EXCLUSIVE),
    _Rule(rf"COMMENT ON (TABLE|COLUMN) {_NAME}", Lock.SHARE_UPDATE_EXCLUSIVE),
    _Rule(rf"UPDATE (ONLY )?{_NAME}", Lock.ROW_EXCLUSIVE, Work.ROWS),
    _Rule(rf"DELETE FROM (ONLY )?{_NAME}", Lock.ROW_EXCLUSIVE, Work.ROWS),
    _Rule(rf"INSERT INTO {_NAME} .*\bSELECT\b", Lock.ROW_EXCLUSIVE, Work.ROWS),
    _Rule(rf"INSERT INTO {_NAME}", Lock.ROW_EXCLUSIVE),
)

_HARMLESS = re.compile(
    r"(BEGIN|COMMIT|SET|RESET|SELECT set_config|GRANT|ALTER DEFAULT PRIVILEGES|CREATE (OR REPLACE )?FUNCTION"
    r"|CREATE (UNLOGGED )?TABLE|CREATE ROLE|ALTER ROLE|CREATE SCHEMA|CREATE SEQUENCE|CREATE TYPE"
    r"|COMMENT ON (FUNCTION|ROLE|SCHEMA|INDEX))\b",
    re.I,
)
"""Statements that lock no table that was there before."""

_ALTER_TABLE = re.compile(rf"ALTER TABLE (IF EXISTS )?(ONLY )?{_NAME} (?P<actions>.*)", re.I)
_DROPS = re.compile(r'DROP (TABLE|COLUMN|CONSTRAINT) (IF EXISTS )?(\w+\.)?"?(?P<name>\w+)', re.I)
_REFERENCES = re.compile(rf"REFERENCES {_NAME}", re.I)
_CREATE_TABLE = re.compile(rf"CREATE (UNLOGGED )?TABLE (IF NOT EXISTS )?{_NAME}", re.I)
_TOKENS = re.compile(
    r"(?P<quoted>'(?:[^']|'')*'|\"[^\"]*\"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|--[^\n]*|/\*.*?\*/)|(.)", re.S
)


def effects_of(sql: str) -> list[Effect]:
    """The effects of one statement on tables. A statement that no rule knows has the work UNKNOWN."""
    text = _one_line(sql)
    if found := _ALTER_TABLE.match(text):
        table = found["table"]
        effects = [_effect(_ACTIONS, action, table) for action in split(found["actions"], ",")]
    elif known := [rule for rule in _STATEMENTS if re.match(rule.pattern, text, re.I)]:
        effects = [_effect(known, text)]
    elif _HARMLESS.match(text):
        effects = []
    else:
        return [Effect(None, Lock.ACCESS_EXCLUSIVE, Work.UNKNOWN, _UNTOLD)]
    if _ALTER_TABLE.match(text) or _CREATE_TABLE.match(text):
        effects += [Effect(found["table"], Lock.SHARE_ROW_EXCLUSIVE, Work.CATALOG) for found in _references(text)]
    return effects


def effects_on(catalog: Catalog, sql: str) -> list[Effect]:
    """The effects of a statement on existing tables: no process waits for tables that a pending migration makes. An
    unknown statement may concern any table, so its table is None."""
    found = [
        effect._replace(table=effect.table or catalog.index_tables.get(effect.index_of or ""), index_of=None)
        for effect in effects_of(sql)
    ]
    unknown = [effect for effect in found if effect.table is None and effect.work is Work.UNKNOWN]
    known = [effect for effect in found if effect.table in catalog.tables and effect.table != created_table(sql)]
    freed = [
        Effect(key.referenced, Lock.ACCESS_EXCLUSIVE, Work.CATALOG)
        for effect in known
        for dropped in _DROPS.finditer(_one_line(sql))
        for key in catalog.foreign_keys
        if key.table == effect.table and dropped["name"] in (key.table, key.name, *key.columns)
    ]
    return [*unknown, *known, *freed]


def created_table(sql: str) -> str | None:
    """The table that a statement makes. Locking a table that no other transaction sees yet blocks no one."""
    found = _CREATE_TABLE.match(_one_line(sql))
    return found["table"] if found else None


def split(sql: str, separator: str) -> list[str]:
    """The parts of an SQL text between separators that stand outside of quotes, comments and parentheses."""
    parts, depth = [""], 0
    for token in _TOKENS.finditer(sql):
        character = token[0]
        if token["quoted"] is None:
            depth += (character == "(") - (character == ")")
            if character == separator and depth == 0:
                parts.append("")
                continue
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _effect(rules: tuple[_Rule, ...] | list[_Rule], text: str, table: str | None = None) -> Effect:
    for rule in rules:
        if found := re.match(rule.pattern, text, re.I):
            named = found.groupdict()
            return Effect(table or named.get("table"), rule.lock, rule.work, rule.breaks, named.get("index"))
    return Effect(table, Lock.ACCESS_EXCLUSIVE, Work.UNKNOWN, _UNTOLD)


def _references(text: str) -> Iterator[re.Match[str]]:
    own = _CREATE_TABLE.match(text)
    return (found for found in _REFERENCES.finditer(text) if own is None or found["table"] != own["table"])


def _one_line(sql: str) -> str:
    without_comments = _TOKENS.sub(lambda token: " " if token[0].startswith(("--", "/*")) else token[0], sql)
    return " ".join(without_comments.split()).rstrip("; ")
