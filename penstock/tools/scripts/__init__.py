"""Tools that are scripts: their manifests, and the host calls that they may make."""
