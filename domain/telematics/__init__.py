"""GPS positions: how they come in, and what they say about where a truck has been."""
