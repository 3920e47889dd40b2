"""The messages between a process that serves and its preview processes: frames of JSON, each behind its length."""

import struct
from typing import BinaryIO

import msgspec
from msgspec import Struct

from domain.contract.shapes import FieldFault
from domain.lifecycle import Environment

LENGTH = struct.Struct(">I")


class Ask(Struct):
    """A load to preview for a company. `body` has been checked already. `explained`: the explanation of the plan is
    wanted too, for a page."""

    company_id: str
    environment: Environment
    body: msgspec.Raw
    explained: bool = False


class Previewed(Struct, tag=True):
    """The answer as JSON, and the explanation of its plan where it is wanted."""

    answer: msgspec.Raw
    explanation: msgspec.Raw = msgspec.Raw(b"null")


class Refused(Struct, tag=True):
    """The load cannot be previewed; the faults name its fields."""

    faults: list[FieldFault]


class NoRoute(Struct, tag=True):
    """The route that was named is none of the company's."""


class Failed(Struct, tag=True):
    """The preview failed on our side. `is_away`: because the database is away."""

    is_away: bool


Reply = Previewed | Refused | NoRoute | Failed

read_ask = msgspec.json.Decoder(Ask).decode
read_reply = msgspec.json.Decoder(Reply).decode


def framed(message: bytes) -> bytes:
    return LENGTH.pack(len(message)) + message


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message; None at the end of the stream, also where it ends in the middle of a message."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None
