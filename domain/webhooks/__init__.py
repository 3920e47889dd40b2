"""Webhooks: companies are told of their routes' changes by HTTP requests to endpoints of their own."""
