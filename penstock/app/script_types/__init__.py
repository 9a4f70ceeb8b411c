"""The types of a project's scripts: declarations for editors, and their check by deno."""
