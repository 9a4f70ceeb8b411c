"""The HTTP API and the pages for browsers."""
