"""The Python client. Fuelroute itself uses it from here: `deploy.clients.python.fuelroute_client`."""
