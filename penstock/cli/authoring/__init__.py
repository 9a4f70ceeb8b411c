"""Commands for authors: create a project, a tool or a skill, and check the files of a project."""
