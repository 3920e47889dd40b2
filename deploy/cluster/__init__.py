"""The reference set-up on several machines, and its rehearsal: README.md."""
