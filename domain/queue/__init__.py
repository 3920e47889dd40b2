"""The job queues in Redis: jobs, Redis keys and scripts, heartbeats, rates, and what the queues hold now."""
