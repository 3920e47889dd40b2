"""The progress of routes: they follow their trucks, and dispatchers enter events that fixes did not show."""
