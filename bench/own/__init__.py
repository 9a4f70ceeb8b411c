"""penstock's own adapters, one per bench."""
