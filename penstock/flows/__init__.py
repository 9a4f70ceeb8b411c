"""Several agents that work together, described by one YAML file."""
