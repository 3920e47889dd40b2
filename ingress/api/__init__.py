"""The public API and the telematics feed: check, store, enqueue, answer."""
