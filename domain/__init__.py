"""The rules and the storage of dispatch routes. This package imports none of the others."""
