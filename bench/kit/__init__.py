"""Code inside a measured environment: only the standard library, so that any peer can host it."""
