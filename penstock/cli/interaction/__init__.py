"""A person at the terminal: asked, heard, understood at Ctrl-C."""
