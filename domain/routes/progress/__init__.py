"""The progress of routes: they follow their trucks, and dispatchers enter what the trucks did not show."""
