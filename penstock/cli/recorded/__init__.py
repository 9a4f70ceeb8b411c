"""Commands about recorded tasks: evaluate an agent, continue a copy of a task, undo a task."""
