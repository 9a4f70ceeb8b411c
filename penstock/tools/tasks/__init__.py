"""Tasks of calls: the values that they keep for a task, and the child tasks that they request."""
