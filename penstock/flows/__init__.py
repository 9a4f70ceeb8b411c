"""Several agents at work, described by one YAML file."""
