"""HTTP: the public API under /v1, the telematics feed, the documentation, the console, health and metrics."""
