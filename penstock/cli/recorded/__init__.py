"""Commands about recorded tasks: evaluate an agent, and continue a copy of a task."""
