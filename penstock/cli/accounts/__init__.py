"""Commands about who may use a project, its secrets, and erasing data."""
