"""Which files of a project are read, and how: discovery, size limits, the manifest's folder."""
