"""Watching the service and stepping in: queues, workers, overdue work, dead letters and pauses."""
