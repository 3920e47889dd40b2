"""Columns and checks that many tables have."""

from enum import StrEnum
from typing import Any

from sqlalchemy import Column, DateTime, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field


def time_column(*, now: bool = False, null: bool = False) -> Any:
    return Field(
        sa_column=Column(
            DateTime(timezone=True), nullable=null, server_default=text("clock_timestamp()") if now else None
        )
    )


def json_column(*, null: bool = False) -> Any:
    return Field(sa_column=Column(JSONB, nullable=null))


def with_default(sql: str, **more: Any) -> Any:
    return Field(sa_column_kwargs={"server_default": text(sql)}, **more)


def is_one_of(column: str, values: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"
