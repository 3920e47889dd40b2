"""Draws that depend on nothing but the seed and their name, so that two checkouts meet the same world."""

import random


def draws(seed: int, *name: object) -> random.Random:
    """A source of its own for each thing that is drawn: whatever a truck did before, the rest of its world stays."""
    return random.Random(" ".join(map(str, (seed, *name))))


def happens(share: float, seed: int, *name: object) -> bool:
    return draws(seed, *name).random() < share


def normal(mean: float, spread: float, seed: int, *name: object) -> float:
    return draws(seed, *name).gauss(mean, spread)
