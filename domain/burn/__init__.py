"""Burn: the fuel that trucks burn on their way, as their levels show it, and the figure that plans are made with."""
