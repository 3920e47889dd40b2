"""HTTP that the API and the console share: connections, limits, proxies, fairness, the end of a process."""
