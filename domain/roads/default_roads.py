"""The choice of the roads."""

from domain.roads import Roads


def default_roads(valhalla_url: str | None) -> Roads:
    """Valhalla with the embedded main roads as its fallback where its address is set, else the embedded roads alone."""
    from domain.roads.highways import HighwayRoads  # loads the graph, which most processes never need
    from domain.roads.valhalla import ValhallaRoads

    highways = HighwayRoads()
    return ValhallaRoads(valhalla_url, fallback=highways) if valhalla_url else highways


def load_roads() -> None:
    """Load the graph of the embedded roads, 21 MB, which processes that are forked from this one then share."""
    from domain.roads.highways import default_highway_finder

    default_highway_finder()
