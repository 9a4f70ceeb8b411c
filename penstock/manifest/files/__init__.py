"""Access to the files of a project: discovery, bounded reads, the manifest's folder."""
