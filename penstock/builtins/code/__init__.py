"""The project's own folder: read, written, changed and searched."""
