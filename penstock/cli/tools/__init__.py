"""The commands that call, list and try tools, and grant agents permission to use them."""
