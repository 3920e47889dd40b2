"""Pages about a company's people, keys, policy, webhooks and notices, and signing in."""
