"""How routes are read: by the API and by the console."""
