"""Pages about prices, fills, savings and fuel tax."""
