"""The one door to disk, and the only creator of connections."""
