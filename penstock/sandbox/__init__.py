"""Runs untrusted scripts; a script reaches only its bridge."""
