"""The lists of tasks, sessions and questions that are derived from the logs."""
