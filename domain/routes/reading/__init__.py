"""Reading of routes for the API and the console."""
