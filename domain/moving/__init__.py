"""A company moves to another cell, by PostgreSQL's logical replication with row filters."""
