"""Quarters of fuel tax that were filed."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Index, LargeBinary, text
from sqlmodel import Field, SQLModel

from domain.tables.columns import json_column, time_column, with_default


class IftaFilings(SQLModel, table=True):
    """A quarter that a person marked as filed, with its report as it was then; see `ifta/filings.py`. It names no
    driver."""

    __tablename__ = "ifta_filings"
    __table_args__ = (
        Index("ifta_filings_by_quarter", "company_id", "quarter", "filed_at"),
        Index("ifta_filings_once", "company_id", "quarter", unique=True, postgresql_where=text("reopened_at IS NULL")),
    )

    id: UUID = Field(primary_key=True)
    company_id: UUID
    quarter: str
    """The quarter, such as `2026Q4`."""
    filed_at: datetime = time_column()
    filed_by: str
    report: dict[str, Any] = json_column()
    """The report that was filed."""
    legs: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """The driven legs behind it, as JSON packed by zlib."""
    reopened_at: datetime | None = time_column(null=True)
    """When a person took the filing back; NULL while the quarter is frozen."""
    compared_at: datetime | None = time_column(null=True)
    """When the report was last compared with what is known now."""
    changes: list[dict[str, Any]] | None = json_column(null=True)
    """The differences since, a line for each state."""
    is_to_amend: bool = with_default("false")
    """True if a change is large enough for a person."""
