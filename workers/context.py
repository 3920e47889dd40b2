"""The context of a worker process's actors: one database, one job queue, its settings, roads, truck stops."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from domain.database import Database
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from workers.job_companies import JobCompanies

if TYPE_CHECKING:
    from domain.roads import Roads
    from domain.stations.corridor_offers import StationPlaces


@dataclass(frozen=True)
class Context:
    settings: Settings
    database: Database
    jobs: JobQueue
    companies: JobCompanies = field(default_factory=JobCompanies)
    """The companies of the job that the thread works on."""

    @cached_property
    def roads(self) -> "Roads":
        """Loaded where they are first used, with the libraries of numerics: only the plans queue needs them."""
        from domain.roads import default_roads

        return default_roads(self.settings.valhalla_url)

    @cached_property
    def network(self) -> "StationPlaces":
        """The truck stops' places, read once and shared by all plans."""
        from domain.stations.corridor_offers import StationPlaces

        return StationPlaces()
