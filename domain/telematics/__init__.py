"""GPS positions: they are stored, and decide when a truck arrived at a stop and when it left."""
