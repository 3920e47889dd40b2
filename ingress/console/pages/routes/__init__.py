"""Routes: lists, a route, what a person does to it, files of them, driven lanes."""
