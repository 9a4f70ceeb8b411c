"""What runs inside a measured environment: standard library alone, so that any peer can host it."""
