"""PostgreSQL: connections, transactions, statements, and the second wall between companies."""
