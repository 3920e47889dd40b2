"""Tells people of a company that the statement of a month's savings was made; by e-mail it comes with the signed file.

The notices are stored in the transaction that makes the statement, one for each subscription. A statement is made once,
so nobody is told twice of it, whatever dies; a notice is sent at most once, as any other."""

from datetime import datetime

from domain.database.connections import Connection
from domain.database.statements import Command
from domain.ids import new_id
from domain.notices.notice_text import text_of_statement
from domain.notices.subscriptions import STATEMENTS, lock_subscriptions
from domain.queue.jobs import after_commit, send_notice_job
from domain.savings.statement_figures import SavingsStatement

_TELL = Command(
    "INSERT INTO notices (id, company_id, subscription_id, kind, part, opened_at, ended_at, text, statement_month,"
    " status, due_at, retry_at) VALUES (%(id)s, %(company_id)s, %(subscription_id)s, %(kind)s, 'statement', %(now)s,"
    " %(now)s, %(text)s, %(month)s, 'pending', %(now)s, %(now)s)"
)


def tell_statement(connection: Connection, statement: SavingsStatement, *, console: str, now: datetime) -> int:
    """Store a notice for each subscription that wants statements. Returns how many."""
    wanting = [
        one
        for one in lock_subscriptions(connection, statement.company_id)
        if one.disabled_at is None and STATEMENTS.kind in one.kinds
    ]
    for subscription in wanting:
        notice_id = new_id()
        text = text_of_statement(statement, address=f"{console}{STATEMENTS.path}?month={statement.month:%Y-%m}")
        of = {"company_id": statement.company_id, "subscription_id": subscription.id, "month": statement.month}
        _TELL.execute(connection, {**of, "id": notice_id, "kind": STATEMENTS.kind, "text": text, "now": now})
        after_commit(connection, send_notice_job(notice_id, statement.company_id))
    return len(wanting)
