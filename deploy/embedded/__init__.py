"""Real PostgreSQL and Redis from PyPI wheels, for a machine that has neither: the embedded default of the stack.

The servers run as our own children in the foreground, listen on unix sockets only, and keep their data in one folder.
The folder is private, and so are the servers' settings: no other user can read them, and no folder above is changed."""

from deploy.embedded.folders import AlreadyRunning, DataFolder, EmbeddedUnavailable, sync_names, write_private
from deploy.embedded.postgres import EmbeddedPostgres
from deploy.embedded.servers import running
from deploy.embedded.valkey import EmbeddedRedis

__all__ = [
    "AlreadyRunning",
    "DataFolder",
    "EmbeddedPostgres",
    "EmbeddedRedis",
    "EmbeddedUnavailable",
    "running",
    "sync_names",
    "write_private",
]
