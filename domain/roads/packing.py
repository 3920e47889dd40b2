"""Packs whole numbers for the embedded files, in a byte order that compresses well."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

PER_DEGREE = 1_000
"""The files keep coordinates as whole thousandths of a degree."""


def pack_integers(values: NDArray[np.int64] | Ints) -> NDArray[np.uint8]:
    """Move signs to the last bit, and put bytes of one rank together: both give long runs of zeros."""
    flat = values.astype(np.int32).ravel()
    return ((flat << 1) ^ (flat >> 31)).astype("<i4").view(np.uint8).reshape(-1, 4).T.copy()


def unpack_integers(stored: NDArray[np.uint8]) -> Ints:
    flat = stored.T.copy().view("<u4").ravel()
    return ((flat >> 1) ^ -(flat & 1).astype(np.uint32)).astype(np.int32)
