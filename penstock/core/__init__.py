"""Values, errors and events that all packages share; no I/O."""
