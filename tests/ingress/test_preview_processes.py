"""Preview processes: one that died is replaced, one that hangs is killed, and who waits too long is told."""

import asyncio
import os
import signal
from pathlib import Path

import msgspec
import pytest

from domain.database.connections import Database, Tenant
from domain.encoding import write
from domain.lifecycle import Environment
from domain.session_priority import GIVES_WAY, IN_A_HURRY, SessionPriority
from domain.settings import Settings
from ingress.previews import processes
from ingress.previews.messages import NoRoute, Previewed, Refused, Reply
from ingress.previews.processes import PreviewBusy, PreviewProcesses
from tests.domain.previews.loads import load
from tests.factories import make_fleet

LOAD = write(load())


@pytest.fixture
def tenant(database: Database) -> Tenant:
    with database.transaction() as connection:
        return make_fleet(connection).live


def pids(previews: PreviewProcesses) -> list[int]:
    return [one._process.pid for one in previews._free]


def test_a_process_is_started_replaced_and_killed(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", "c2VjcmV0")
    monkeypatch.setenv("FUELROUTE_REDIS_URL_FILE", "secrets/redis")
    monkeypatch.setattr(processes, "ANSWER_SECONDS", 300)
    monkeypatch.setattr(processes, "HURRY_SECONDS", 300)
    asked_for: list[int] = []

    def note(_: SessionPriority, niceness: int) -> bool:
        asked_for.append(niceness)
        return True

    monkeypatch.setattr(SessionPriority, "become", note)

    async def walk() -> None:
        previews = PreviewProcesses(settings)
        assert pids(previews) == []

        assert is_answer_for(await previews.preview(tenant, LOAD), tenant)
        assert await previews.preview(tenant, write({"routeId": "rte_none"})) == NoRoute()
        assert isinstance(await previews.preview(tenant, write(load(vehicle={"unitNumber": "none"}))), Refused)
        (first,) = pids(previews)
        environment = Path(f"/proc/{first}/environ").read_text()
        assert "PATH=" in environment
        assert "c2VjcmV0" not in environment
        assert "secrets/redis" not in environment
        assert os.getsid(first) == first

        os.kill(first, signal.SIGKILL)
        explained = await previews.preview(tenant, LOAD, explained=True)
        assert isinstance(explained, Previewed)
        assert msgspec.json.decode(explained.explanation)["line"]
        (second,) = pids(previews)
        assert second != first

        assert {*asked_for} == {GIVES_WAY}
        asked_for.clear()
        os.kill(second, signal.SIGSTOP)
        with monkeypatch.context() as patched:
            patched.setattr(processes, "ANSWER_SECONDS", 0.1)
            patched.setattr(processes, "HURRY_SECONDS", 0.0)
            with pytest.raises(PreviewBusy):
                await previews.preview(tenant, LOAD)
        assert asked_for == [IN_A_HURRY]
        assert pids(previews) == []
        with pytest.raises(ProcessLookupError):
            os.kill(second, 0)

    asyncio.run(walk())


def test_a_process_hurries_as_soon_as_the_kernel_takes_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes one of all processes' changes within a tenth of a second: another ask may have hurried just then."""
    written: list[str] = []

    def write(_: Path, text: str) -> None:
        written.append(text)
        if len(written) < 3:
            raise BlockingIOError

    monkeypatch.setattr(Path, "write_text", write)
    monkeypatch.setattr("domain.session_priority.AGAIN_SECONDS", 0.0)
    asyncio.run(SessionPriority(tmp_path / "autogroup").hurry_at(0.0))
    assert written == [str(IN_A_HURRY)] * 3


def test_a_refused_change_of_priority_is_made_up_for(tmp_path: Path) -> None:
    group = tmp_path / "autogroup"
    session = SessionPriority(group)
    group.mkdir()
    session.become(GIVES_WAY)
    group.rmdir()
    session.become(GIVES_WAY)
    assert group.read_text() == str(GIVES_WAY)

    group.unlink()
    session.become(GIVES_WAY)
    assert not group.exists()
    session.become(IN_A_HURRY)
    assert group.read_text() == str(IN_A_HURRY)


def test_who_finds_no_free_process_in_time_is_told(
    settings: Settings, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def walk() -> None:
        previews = PreviewProcesses(settings)
        monkeypatch.setattr(processes, "PATIENCE_SECONDS", 0.01)
        async with previews._turns.permit("another company"):
            with pytest.raises(PreviewBusy):
                await previews.preview(tenant, LOAD)

    asyncio.run(walk())


def is_answer_for(reply: Reply, tenant: Tenant) -> bool:
    return isinstance(reply, Previewed) and msgspec.json.decode(reply.answer)["environment"] == Environment(
        tenant.environment
    )
