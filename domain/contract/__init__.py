"""What the public API says: its JSON shapes, how bodies and queries are checked against them, and CSV files."""
