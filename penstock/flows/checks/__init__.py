"""What is checked of a flow beyond its text, one subject a file."""
