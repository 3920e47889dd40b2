"""Documentation for those who build against the API, served beside it at /docs."""
