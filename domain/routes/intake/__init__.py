"""The intake of routes: pushes, updates, superseding, holds and imports, and the effects of a changed fleet."""
