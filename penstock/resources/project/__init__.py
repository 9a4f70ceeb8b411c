"""The files of a project, for tools that read, search and change them."""
