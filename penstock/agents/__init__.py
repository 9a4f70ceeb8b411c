"""One agent thinking: its prompt, its turns, its loop."""
