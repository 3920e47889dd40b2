"""APScheduler: the five-minute pass over held routes, the sweep for lost work, and housekeeping. One leader."""
