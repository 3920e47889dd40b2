"""The place of a road alone tells whether it is abroad, and whether it is in a state with fast two-lane
highways."""

import numpy as np
import shapely
from numpy.typing import NDArray

from domain.roads.sphere import Array
from domain.roads.states import default_states

OPEN_STATES = frozenset(
    ("AZ", "CO", "ID", "KS", "MT", "ND", "NE", "NM", "NV", "OK", "OR", "SD", "TX", "UT", "WA", "WY")
)
"""States with speed limits of 60 to 75 mph for trucks on rural two-lane roads (IIHS, Maximum posted speed limits). In
other states the limit is mostly 55. Canada and Mexico were not looked at and count as open."""

ABROAD_DEGREES = 0.03
"""About two miles: the error of the borders in `states.npz`. A road is abroad only when it is this far beyond a
border."""

FOREIGN = frozenset(("AB", "BC", "MB", "MX", "NB", "NL", "NS", "NT", "NU", "ON", "PE", "QC", "SK", "YT"))


def are_abroad(places: Array) -> NDArray[np.bool_]:
    """Tell which places, (n, 2) in degrees, lie outside of the United States."""
    at_home = shapely.STRtree([shape for code, shape in default_states().polygons() if code not in FOREIGN])
    points = shapely.points(places[:, 1], places[:, 0])
    near, _ = at_home.query_nearest(points, max_distance=ABROAD_DEGREES, all_matches=False)
    abroad = np.ones(len(places), dtype=np.bool_)
    abroad[near] = False
    return abroad


def are_in_open_states(places: Array) -> NDArray[np.bool_]:
    """Tell which places, (n, 2) in degrees, lie in states with fast two-lane highways."""
    states = default_states()
    is_open = np.array([name in OPEN_STATES | FOREIGN for name in states.names])
    return np.asarray(is_open[states.positions(places)])
