"""Pages about routes: lists, a route, a person's actions on it, files of routes, driven lanes."""
