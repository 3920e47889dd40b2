"""The request log: the latest requests of each API key, and the answers."""
