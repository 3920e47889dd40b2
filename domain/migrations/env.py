"""Alembic's entry: migrations run on the connection that `domain.database.migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

from domain import tables  # noqa: F401  (fills SQLModel.metadata)

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    transaction_per_migration=True,
    # not the partitions
    include_name=lambda name, kind, _: kind != "table" or not str(name).startswith(("positions_", "request_log_")),
)
with context.begin_transaction():
    context.run_migrations()
