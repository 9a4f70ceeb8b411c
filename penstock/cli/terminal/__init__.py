"""Input and output at a terminal: prompts, clean text, tables, findings, events of a call."""
