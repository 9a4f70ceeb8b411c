"""Engines in processes of their own: Deno, and what the system confines."""
