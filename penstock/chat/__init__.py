"""A conversation: what comes in, the work on it, what readers see of it."""
