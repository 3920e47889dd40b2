"""Every error of the API as an RFC 9457 problem document, in one table."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from domain.contract.shapes import FieldFault, Problem
from domain.encoding import write
from domain.magic_values import MagicErrorCode

PROBLEM_TYPE = "application/problem+json"


class Kind(NamedTuple):
    status: int
    title: str


KINDS = {
    "validation_error": Kind(400, "The request is not valid"),
    "unauthorized": Kind(401, "A valid API key is needed"),
    "insufficient_scope": Kind(403, "The key lacks a scope"),
    "not_found": Kind(404, "Not found"),
    "method_not_allowed": Kind(405, "Method not allowed"),
    "route_active": Kind(409, "The route has started"),
    "content_too_large": Kind(413, "The body is too large"),
    "unsupported_media_type": Kind(415, "The body must be JSON"),
    "rate_limited": Kind(429, "Too many requests"),
    "internal_error": Kind(500, "Something failed on our side"),
}


class ApiError(Exception):
    """A request that is answered with a problem document. `code` is one of KINDS; `detail` is for people."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldFault] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})


class MagicError(Exception):
    """A push to the sandbox asked for an error. The answer equals the real one; it is not measured as an error."""

    def __init__(self, code: MagicErrorCode) -> None:
        super().__init__(code)
        self.code = code


def document_of(error: ApiError) -> bytes:
    """The problem document of an error."""
    kind = KINDS[error.code]
    return write(
        Problem(
            title=kind.title,
            status=kind.status,
            code=error.code,
            detail=error.detail,
            errors=list(error.errors) if error.errors is not None else msgspec.UNSET,
        )
    )
