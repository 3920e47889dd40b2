"""Running Fuelroute: the command line, the embedded stack and its supervisor, the demo, and files for operators."""
