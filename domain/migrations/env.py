"""Alembic's entry: migrations run on the connection that `domain.migrations.migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

from domain.migrations.drift import is_expected

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    transaction_per_migration=True,
    include_name=is_expected,
)
with context.begin_transaction():
    context.run_migrations()
