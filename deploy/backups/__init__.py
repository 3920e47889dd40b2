"""Backups of the embedded database: base backups, the continuous archive, and the way back. See `deploy/backup.md`.

One folder holds them:

    archive.json          the database and the life to which the folder belongs
    backups/TIME/         one base backup: `postgres/`, and `backup.json`, which says what is in it
    wal/                  the continuous archive: the write-ahead log, as PostgreSQL writes it
"""
