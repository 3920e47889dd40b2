"""Compose and Kubernetes have the workers of every queue, as `deploy/worker_files.py` writes them."""

import re

from deploy.worker_files import HERE, rendered
from domain.queue.jobs import QUEUES


def test_the_parts_about_workers_are_those_that_the_module_writes() -> None:
    other = [str(path.relative_to(HERE)) for path, text in rendered().items() if path.read_text() != text]

    assert other == [], "run python -m deploy.worker_files"


def test_the_readme_starts_workers_of_every_queue() -> None:
    started = re.findall(r"^    fuelroute workers --queues ([\w,]+)", (HERE / "README.md").read_text(), re.M)

    assert [queue for queues in started for queue in queues.split(",")] == list(QUEUES)


def test_every_queue_has_a_module() -> None:
    assert [queue for queue in QUEUES if not (HERE.parent / "workers" / f"{queue}.py").exists()] == []
