"""Tools that are scripts: from a manifest to the bridge that one entry of it holds."""
