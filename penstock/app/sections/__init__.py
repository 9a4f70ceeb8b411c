"""Parts of the settings: where each value comes from, and sections about background work."""
