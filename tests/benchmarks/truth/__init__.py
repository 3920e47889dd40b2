"""The judge: trucks drive what their newest plan says, in a world that differs from the plan's inputs."""
