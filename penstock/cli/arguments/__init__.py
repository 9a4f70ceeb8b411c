"""Arguments of commands: shared options, JSON inputs, completion, and the project folder."""
