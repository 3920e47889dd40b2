"""Reads routes for the API and the console."""
