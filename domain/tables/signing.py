"""The key that signs PDF files."""

from datetime import datetime
from uuid import UUID

from sqlmodel import Field, SQLModel

from domain.tables.columns import time_column


class SigningKeys(SQLModel, table=True):
    """The installation's key for signatures, made when the first one is needed. The newest signs."""

    __tablename__ = "signing_keys"

    id: UUID = Field(primary_key=True)
    certificate: str
    """PEM, self-signed; it is public."""
    private_key: str
    """PEM, sealed like contacts where a key for them is set."""
    created_at: datetime = time_column(now=True)
