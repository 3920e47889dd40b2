"""The metrics of a process, as Prometheus reads them."""

import httpx
from prometheus_client.parser import text_string_to_metric_families


class Metrics:
    """The metrics of one process."""

    def __init__(self, port: int) -> None:
        self.port = port

    def text(self) -> str:
        return httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=120, verify=False).text

    def value(self, name: str, **labels: str) -> float | None:
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    def are_of(self, process: str) -> bool:
        """True if the process of that name serves them."""
        try:
            return self.value("fuelroute_process", process=process) == 1
        except (httpx.TransportError, ValueError):  # nobody is there, or something else
            return False
