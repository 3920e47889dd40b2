"""Quiet hours: the time of a person's day in which no notice goes out."""

from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTES_OF_DAY = 24 * 60


class QuietHours(NamedTuple):
    """From one minute of the day to before another one, by the person's local clock. They may span midnight."""

    begin: int
    end: int
    time_zone: str

    @classmethod
    def of(cls, begin: int | None, end: int | None, time_zone: str) -> "QuietHours | None":
        """The hours from their stored form; None if there are none."""
        return cls(begin, end, time_zone) if begin is not None and end is not None else None

    def have(self, moment: datetime) -> bool:
        """Tell if it is quiet at this moment. Hours that end where they begin are empty."""
        local = moment.astimezone(ZoneInfo(self.time_zone))
        minute = local.hour * 60 + local.minute
        if self.begin <= self.end:
            return self.begin <= minute < self.end
        return minute >= self.begin or minute < self.end
