"""Documentation of the API for its users, served beside it at /docs."""
