"""Webhooks: HTTP requests to companies' own endpoints tell of changes of their routes."""
