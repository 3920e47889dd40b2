"""The public API's JSON shapes, and the check of bodies and queries against them."""
