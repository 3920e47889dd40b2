"""The role under which ingress, console and workers use the database."""

import sqlalchemy
from alembic import op

from domain.database.connections import DatabaseProblem
from domain.database.visibility import SERVICE_ROLE


def make_service_role() -> None:
    """Make the role where the server has none, and let the owner of the tables take it. Raises DatabaseProblem if the
    owner has no right to. A role belongs to the whole server: other databases there may use it, and may make it at the
    same moment."""
    if op.get_context().as_sql:  # for `migrate --plan`, which asks no server
        op.execute(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN")
        op.execute(f"GRANT {SERVICE_ROLE} TO CURRENT_USER")
        op.execute(f"GRANT USAGE ON SCHEMA public TO {SERVICE_ROLE}")
        return
    connection = op.get_bind()
    missing = []
    is_member = connection.scalar(
        sqlalchemy.text("SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = :role"),
        {"role": SERVICE_ROLE},
    )
    if is_member is None:
        missing.append(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN")
    if not is_member:
        missing.append(f"GRANT {SERVICE_ROLE} TO CURRENT_USER")
    for command in missing:
        try:
            with connection.begin_nested():
                connection.execute(sqlalchemy.text(command))
        except sqlalchemy.exc.IntegrityError:  # another database's migration has just made it
            continue
        except sqlalchemy.exc.ProgrammingError as error:
            owner = connection.scalar(sqlalchemy.text("SELECT current_user"))
            raise DatabaseProblem(
                f"the role {owner} may not make the role {SERVICE_ROLE}: ask an administrator of the database to run"
                f" CREATE ROLE {SERVICE_ROLE} NOLOGIN; GRANT {SERVICE_ROLE} TO {owner}; and then migrate again"
            ) from error
    connection.execute(sqlalchemy.text(f"GRANT USAGE ON SCHEMA public TO {SERVICE_ROLE}"))
