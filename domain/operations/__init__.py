"""Watches the service and steps in: queues, workers, overdue work, dead letters and pauses."""
