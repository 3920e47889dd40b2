"""Several cells: HAProxy's map of keys, and the rehearsal of a move."""
