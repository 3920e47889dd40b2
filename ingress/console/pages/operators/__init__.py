"""Pages for operators alone."""
