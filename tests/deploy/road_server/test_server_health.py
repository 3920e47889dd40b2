"""A server that lives and does not answer is killed, so that its supervisor starts it again."""

from pathlib import Path

from deploy.processes import Child, Spec
from deploy.road_server.server import LOOK_SECONDS, MOST_SILENT_LOOKS, ServerHealth
from tests.domain.roads.conftest import Clock


class Health(ServerHealth):
    is_silent = False
    looks = 0

    def answers(self) -> bool:
        self.looks += 1
        return not self.is_silent


def test_a_server_that_hangs_is_killed_and_one_that_answers_is_not(tmp_path: Path) -> None:
    clock, said = Clock(), list[str]()
    health = Health("http://127.0.0.1:1", said.append, clock)
    child = Child(Spec("valhalla", ["sleep", "600"], tmp_path / "log"))

    def look(times: int) -> None:
        for _ in range(times):
            health.look(child)
            clock.seconds += LOOK_SECONDS

    try:
        look(MOST_SILENT_LOOKS + 2)
        health.is_silent = True
        look(MOST_SILENT_LOOKS - 1)
        health.is_silent = False
        look(1)
        health.is_silent = True
        look(MOST_SILENT_LOOKS - 1)
        assert child.died() is None
        look(1)
        assert child.died() is not None
        assert said == ["valhalla did not answer 3 times in a row: it is killed"]
        looks = health.looks
        look(5)
        assert health.looks == looks  # a dead server is its supervisor's
    finally:
        child.kill_group()


def test_a_server_that_is_not_there_does_not_answer() -> None:
    assert not ServerHealth("http://127.0.0.1:1", lambda _: None).answers()
