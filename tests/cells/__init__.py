"""Cells behind a real HAProxy, and the move of a company between two of them under load."""
