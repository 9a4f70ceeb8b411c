"""YAML and front matter as values that know their lines."""
