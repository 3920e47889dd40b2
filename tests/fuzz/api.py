"""The part `api`: schemathesis draws requests from our OpenAPI document, alone and in sequences."""

import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
import schemathesis
from hypothesis import seed as seeded
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.case import Case

from tests.fuzz.clients import Keys
from tests.fuzz.engine import HANG_SECONDS, SETTINGS, Fault, Part

_STEPS = 8
"""The number of requests of one sequence."""
_LINKS = {
    "getRoute": {"id": "$response.body#/id"},
    "cancelRoute": {"id": "$response.body#/id"},
    "listRoutes": {"externalId": "$response.body#/externalId"},
}
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


def _with_links(document: dict[str, Any]) -> dict[str, Any]:
    """The document, in which a pushed route leads to the requests that take its id. It asks for no key: `call` sends
    one."""
    del document["security"], document["components"]["securitySchemes"]
    for status in ("200", "201", "202"):
        answer = document["paths"]["/v1/routes"]["post"]["responses"][status]
        answer["links"] = {name: {"operationId": name, "parameters": values} for name, values in _LINKS.items()}
    return document


class Api(Part):
    """Half of the cases are requests alone, right ones and wrong ones; half are sequences of them."""

    name = "api"

    def __init__(self, keys: Keys) -> None:
        super().__init__()
        self._keys = keys
        self._schema = schemathesis.openapi.from_dict(_with_links(keys.ask("GET", "/v1/openapi.json").json()))
        self._checks: list[Any] = [one for one in schemathesis.checks.CHECKS.get_all() if one.__name__ in _CHECKS]
        self._session = requests.Session()

    def cases(self) -> st.SearchStrategy[Case[Any]]:
        return st.one_of([self._schema.as_strategy(mode) for mode in GenerationMode])

    def check(self, case: Case[Any]) -> None:
        give_sense(case)
        self.judge(case, self.call(case))

    def call(self, case: Case[Any]) -> Response:
        """The answer to a request. Raises Fault when there is none in time."""
        key = "unknown" if zlib.crc32(f"{case.formatted_path} {case.query}".encode()) % 16 == 0 else self._keys.next()
        headers = {"Authorization": f"Bearer {key}"}
        try:
            return case.call(base_url=self._keys.url, headers=headers, session=self._session, timeout=HANG_SECONDS)
        except requests.RequestException as error:
            raise Fault(f"{error!r} for {case.as_curl_command()}") from error

    def judge(self, case: Case[Any], answer: Response) -> None:
        """Check the answer against the document. Raises Fault if it differs."""
        self.counts[f"{case.method} {case.path} {answer.status_code}"] += 1
        try:
            case.validate_response(answer, checks=self._checks)
        except (Failure, FailureGroup) as failure:
            faults = failure.exceptions if isinstance(failure, FailureGroup) else [failure]
            said = "; ".join(f"{type(one).__name__}: {one}" for one in faults)
            raise Fault(f"{said}; {answer.status_code} {answer.text[:500]} to {case.as_curl_command()}") from failure
        if answer.status_code == 201 and zlib.crc32(answer.content) % 4 == 0:
            self._arrive(answer.json())

    def _arrive(self, route: dict[str, Any]) -> None:
        """Let the truck of a draft stand at its first stop, so that there are plans and routes under way."""
        self._keys.client().post_fixes(route["stops"][0], unit_number=route["vehicle"]["unitNumber"])
        self.counts["trucks at a first stop"] += 1

    def search(self, seed: int, cases: int, advance: Callable[[], object]) -> None:
        super().search(seed, cases // 2, advance)
        part = self

        class Sequences(self._schema.as_state_machine()):  # type: ignore[misc]  # made from the document
            """Requests that follow the links of the answers before them, each sequence for a company of its own: the
            same requests get the same answers."""

            def setup(self) -> None:
                part._keys.begin_anew()

            def before_call(self, case: Case[Any]) -> None:
                give_sense(case)

            def call(self, case: Case[Any], **_: Any) -> Response:
                advance()
                return part.call(case)

            def validate_response(self, response: Response, case: Case[Any], *_: Any, **__: Any) -> None:
                part.judge(case, response)

        settings = hypothesis_settings(
            SETTINGS, max_examples=max((cases - cases // 2) // _STEPS, 1), stateful_step_count=_STEPS
        )
        try:
            run_state_machine_as_test(seeded(seed)(Sequences), settings=settings)
        except FlakyStrategyDefinition:  # an import took longer this time, so that 202 came in place of 201
            self.counts["blocks of sequences that ended early"] += 1


def give_sense(case: Case[Any]) -> None:
    """Change a part of the pushes so that they lead to routes: drawn texts name no truck of ours."""
    if case.method != "POST" or not isinstance(case.body, dict) or "externalId" not in case.body:
        return
    luck = zlib.crc32(json.dumps(case.body, default=str).encode())
    body = case.body = dict(case.body)
    if luck % 2:
        body["vehicle"] = {"unitNumber": "101" if luck % 3 else "102"}
    if luck % 5:
        body["driver"] = {"name": "Ann Lee"}
    if luck % 7 > 1:
        body["scheduledStart"] = (datetime.now(UTC) + timedelta(hours=luck % 11)).isoformat()
    if luck % 13 < 6:
        body["externalId"] = f"FUZZ-{luck % 40}"
