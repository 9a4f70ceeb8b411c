"""YAML and front matter as values with line numbers."""
