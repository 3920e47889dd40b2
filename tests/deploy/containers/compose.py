"""deploy/containers/compose.yaml as `docker compose` reads it, for tests."""

import re
from pathlib import Path
from typing import Any

import yaml

CONTAINERS = Path(__file__).parents[3] / "deploy" / "containers"
DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def compose() -> dict[str, Any]:
    """The file with the defaults of its variables."""
    document: dict[str, Any] = yaml.safe_load(DEFAULT.sub(r"\1", (CONTAINERS / "compose.yaml").read_text()))
    return document


def our_services() -> dict[str, dict[str, Any]]:
    """The services that run from our image."""
    services: dict[str, dict[str, Any]] = compose()["services"]
    return {name: service for name, service in services.items() if "/fuelroute:" in service["image"]}


def built_in() -> dict[str, str]:
    """The variables that the image sets."""
    text = (CONTAINERS / "Containerfile").read_text().replace("\\\n", "")
    (line,) = re.findall(r"^ENV (LANG=.*)$", text, re.M)
    return dict(pair.split("=", 1) for pair in line.split())
