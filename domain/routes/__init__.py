"""Routes: pushing, importing, canceling, and how callers see them."""
