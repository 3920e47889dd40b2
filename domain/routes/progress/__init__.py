"""The progress of routes: they follow their trucks, and dispatchers enter events that the trucks did not show."""
