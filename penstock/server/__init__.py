"""People over HTTP, and what they see in a browser."""
