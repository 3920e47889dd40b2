"""Traces and logs of real processes, at a small collector that speaks OTLP over HTTP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from domain.settings import Settings
from tests.conftest import make_database
from tests.factories import JOLIET, NEWARK, route_body
from tests.pipeline.world import store_prices
from tests.servers import own_redis
from tests.service import Service, eventually, running_service

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"


@dataclass
class Collector:
    """Every span and line that it was sent, with the name of the process."""

    url: str = ""
    bodies: bytes = b""
    spans: list[tuple[str, Any]] = field(default_factory=list)
    lines: list[tuple[str, Any]] = field(default_factory=list)

    def of_trace(self) -> dict[str, Any]:
        return {span.name: span for _, span in self.spans if span.trace_id.hex() == TRACE_ID}


@contextmanager
def running_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies += body
            if self.path == "/v1/traces":
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in group.scope_spans:
                        collector.spans += [(service_of(group.resource), span) for span in scope.spans]
            else:
                for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                    for of_scope in logs.scope_logs:
                        collector.lines += [(service_of(logs.resource), line) for line in of_scope.log_records]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield collector
        server.shutdown()


def service_of(resource: Any) -> str:
    return next(str(one.value.string_value) for one in resource.attributes if one.key == "service.name")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def own_service(
    settings: Settings, collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as environment, own_redis(tmp_path_factory.mktemp("redis")) as redis:
        for name, value in {
            "EXPORTER_OTLP_ENDPOINT": collector.url,
            "EXPORTER_OTLP_COMPRESSION": "gzip",
            "BSP_SCHEDULE_DELAY": "200",
            "BLRP_SCHEDULE_DELAY": "200",
        }.items():
            environment.setenv(f"OTEL_{name}", value)
        own = settings.model_copy(update={"database_url": make_database("telemetry"), "redis_url": redis.url})
        with running_service(own, tmp_path_factory.mktemp("logs"), IMPORT_WAIT_SECONDS="30") as service:
            store_prices(service)
            yield service


def test_a_push_its_plan_and_its_message_are_one_trace(own_service: Service, collector: Collector) -> None:
    with own_service.new_tenant() as client:
        body = route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])
        headers = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "X-Request-Id": "the-push"}
        pushed = client.post("/v1/routes", json=body, headers=headers)
        client.post_fixes(JOLIET, fuelPercent=60)
        client.wait_for(pushed.json()["id"], "active")
        refused = client.get("/v1/routes/rte_../../etc/passwd?password=hunter2")
        assert refused.status_code == 404
        key = client.key

    wanted = {"POST /v1/routes", "plans.build", "messages.send"}
    found = eventually(collector.of_trace, lambda spans: wanted <= set(spans))
    push = found["POST /v1/routes"]
    assert push.parent_span_id.hex() == PARENT_ID
    assert {found[name].parent_span_id for name in ("plans.build", "messages.send")} == {push.span_id}
    imported = eventually(lambda: [span for _, span in collector.spans if span.name == "imports.run"], bool)
    assert push.span_id in [link.span_id for span in imported for link in span.links]
    services = {service for service, _ in collector.spans}
    assert services == {"fuelroute-ingress", "fuelroute-workers"}

    built = eventually(lambda: [line for _, line in collector.lines if line.body.string_value == "plans.built"], bool)
    assert built[0].trace_id.hex() == TRACE_ID
    assert key.encode() not in collector.bodies
    assert b"hunter2" not in collector.bodies
    assert b"etc/passwd" not in collector.bodies
