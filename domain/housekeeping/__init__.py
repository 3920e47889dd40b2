"""Retention and erasure: data that is deleted after a time, and data that is erased on request."""
