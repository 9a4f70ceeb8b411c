"""Tasks of a conversation: how they start, end, are closed, and are read from the log."""
