"""One preview process: it answers the asks on its standard input, one after the other, until that ends.

It gives way to everything else on the machine, because nobody's push may wait for a preview. Whoever started it kills
it when an answer takes too long; nothing is lost, because nothing is stored."""

import os
import signal
import sys
from functools import partial
from typing import BinaryIO
from uuid import UUID

import msgspec

from domain import clock
from domain.contract.checking import Invalid, read_body
from domain.database.connections import Database, Tenant
from domain.database.health import is_away
from domain.database.options import SERVING
from domain.database.visibility import NOTHING, of_tenants
from domain.encoding import write
from domain.planning.planner import Planner
from domain.previews.load_preview import preview_load
from domain.previews.preview_tasks import NoSuchRoute
from domain.previews.shapes import MOST_PASSES, PreviewInput
from domain.previews.towns import default_towns
from domain.roads import Roads
from domain.roads.default_roads import default_roads
from domain.roads.states import default_states
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces
from domain.telemetry.logs import configure_logging, get_logger
from ingress.http.garbage import collect_rarely
from ingress.previews.messages import Ask, Failed, NoRoute, Previewed, Refused, Reply, framed, read_ask, read_frame

log = get_logger(__name__)

_NICENESS = 10
"""Counts where the kernel does not group sessions, as in a container. Nobody can take it back, so it leaves enough for
an answer on a busy machine."""


class Previews:
    """The resources of this process, and its answers."""

    def __init__(self, settings: Settings, database: Database, roads: Roads) -> None:
        self._settings, self._database, self._roads = settings, database, roads
        self._network = StationPlaces()
        default_towns(), default_states()  # loaded now, so that the first answer does not wait for them

    def answer(self, ask: Ask) -> Reply:
        try:
            return self._preview(ask)
        except Invalid as invalid:
            return Refused(invalid.faults)
        except NoSuchRoute:
            return NoRoute()
        except Exception as error:
            log.exception("preview.failed")
            return Failed(is_away(error))

    def _preview(self, ask: Ask) -> Reply:
        tenant = Tenant(UUID(ask.company_id), ask.environment)
        snapshots = partial(self._database.pipelined_transaction, of_tenants([tenant]), snapshot=True)
        planner = Planner(self._settings, snapshots, self._roads, self._network, MOST_PASSES)
        found = preview_load(planner, tenant, read_body(bytes(ask.body), PreviewInput), now=clock.now())
        if not ask.explained:
            return Previewed(msgspec.Raw(write(found.answer)))
        return Previewed(msgspec.Raw(write(found.answer)), msgspec.Raw(write(found.plan.explanation())))


def run(requests: BinaryIO, answers: BinaryIO) -> None:
    """Reads the settings, and then asks. Each answer is one frame, and so is the empty one that says `ready`."""
    first = read_frame(requests)
    if first is None:
        return
    settings = Settings(**msgspec.json.decode(first))
    configure_logging(settings, "preview")
    reading = Database.of(settings, SERVING, fail_fast=True, visible=lambda: NOTHING, pool_size=1, put_jobs=None)
    with reading as database:  # nothing is changed, so no job follows
        previews = Previews(settings, database, default_roads(settings.valhalla_url))
        collect_rarely()
        os.nice(_NICENESS)  # from now on: it is started while somebody waits
        _send(answers, b"")
        while (message := read_frame(requests)) is not None:
            _send(answers, write(previews.answer(read_ask(message))))


def _send(answers: BinaryIO, message: bytes) -> None:
    answers.write(framed(message))
    answers.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that serves; then our input ends
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not come between the answers
    run(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
