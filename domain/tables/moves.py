"""Companies that are moved from one cell to another."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, Column, LargeBinary, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column


class CompanyMoves(SQLModel, table=True):
    """A company on its way to another cell, or from there; see `domain/database/fence.py`. Both cells have such a row
    until the move is complete."""

    __tablename__ = "company_moves"
    __table_args__ = (
        CheckConstraint("stage IN ('copying', 'pausing', 'fenced', 'left', 'arriving')", name="stage"),
        CheckConstraint("(stage = 'copying') = (holds_until IS NULL)", name="holds_until"),
    )

    company_id: UUID = Field(primary_key=True)
    """The company. There is no foreign key, because the row is there before the company arrives."""
    other_cell: int
    """The cell to which it goes, or from which it comes."""
    stage: str
    holds_until: datetime | None = time_column(null=True)
    """The stage counts until then, so that a command that dies in a pause does not leave the company paused for ever.
    NULL while it is copied, which stops nothing; `infinity` once it has left, and until it has arrived."""
    key_hashes: list[bytes] = Field(
        sa_column=Column(ARRAY(LargeBinary), nullable=False, server_default=text("'{}'::bytea[]"))
    )
    """The hashes of its keys, from the pause on: requests with them are answered 429 instead of 401."""
    began_at: datetime = time_column(now=True)
