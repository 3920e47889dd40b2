"""The rules and the storage of dispatch routes. Imports nothing of the other packages."""
