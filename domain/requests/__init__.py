"""The log of requests: what each API key asked lately, and what it was answered."""
