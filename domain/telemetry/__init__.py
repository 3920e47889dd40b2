"""Logs, metrics, traces and health of each process."""
