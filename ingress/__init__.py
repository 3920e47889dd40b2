"""HTTP: the public API under /v1, the telematics feed, health and metrics. Thin: check, store, enqueue, answer."""
