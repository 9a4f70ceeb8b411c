"""One agent at work: its files, prompt, turns and loop."""
