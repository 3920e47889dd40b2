"""The context of a worker process's actors: one database, one job queue, its settings, roads, truck stops."""

from dataclasses import dataclass, field
from functools import cached_property

from domain.database import Database
from domain.queue.job_queue import JobQueue
from domain.roads import Roads, default_roads
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces
from workers.job_companies import JobCompanies


@dataclass(frozen=True)
class Context:
    settings: Settings
    database: Database
    jobs: JobQueue
    companies: JobCompanies = field(default_factory=JobCompanies)
    """The companies of the job that the thread works on."""

    @cached_property
    def roads(self) -> Roads:
        """Loaded where they are first used: only the plans queue needs them."""
        return default_roads(self.settings.valhalla_url)

    @cached_property
    def network(self) -> StationPlaces:
        """The truck stops' places, read once and shared by all plans."""
        return StationPlaces()
