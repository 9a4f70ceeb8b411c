"""The background work of an open project: sweeps of unused bytes, and webhooks."""
