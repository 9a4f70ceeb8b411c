"""What authors write: tools, skills and handbooks in files."""
