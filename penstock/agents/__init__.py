"""One agent: its files, prompt, turns and loop."""
