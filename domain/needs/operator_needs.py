"""The needs of operators: what the page Queues calls urgent, by the rule that finds it. Rules on queues, workers and
passes stand in `operations/alerts.py`; figures of overdue work bring needs of their own."""

from domain.needs.figures import FIGURES
from domain.needs.need import Need

REDIS_AWAY = Need(kind="redis_away", label="Redis does not answer", ended="Redis answers again")
UNSERVED = Need(kind="unserved", label="No worker serves a queue", ended="Each queue has a worker again")
STALLED = Need(kind="stalled", label="A queue has stopped moving", ended="The queues move again")
FOREIGN_WORKER = Need(
    kind="foreign_worker",
    label="A worker of another service takes our jobs",
    ended="No foreign worker takes our jobs any more",
)
WORKER_SILENT = Need(
    kind="worker_silent",
    label="A worker is silent and holds jobs",
    ended="No silent worker holds jobs any more",
)
WORKER_STUCK = Need(
    kind="worker_stuck", label="A worker ends none of its jobs", ended="The workers end their jobs again"
)
WORKERS_DIE = Need(
    kind="workers_die",
    label="Workers of a queue die soon after their start",
    ended="No worker dies soon after its start any more",
)
PASS_LATE = Need(
    kind="pass_late", label="A pass of the scheduler does not end", ended="The passes of the scheduler run again"
)

OPERATOR_NEEDS = (
    REDIS_AWAY,
    UNSERVED,
    STALLED,
    FOREIGN_WORKER,
    WORKER_SILENT,
    WORKER_STUCK,
    WORKERS_DIE,
    PASS_LATE,
    *(figure.need for figure in FIGURES.values() if figure.need is not None),
)
