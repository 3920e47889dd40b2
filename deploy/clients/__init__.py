"""Clients of the API for other programs, each a distribution of its own, and what makes their models."""
