"""Monitoring of Fuelroute: rules for Prometheus, dashboards for Grafana, and the rehearsal of the runbook."""
