"""Pages only for operators."""
