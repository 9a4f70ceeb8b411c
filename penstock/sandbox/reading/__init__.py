"""Scripts as authors write them: found, stripped of types, checked, kept."""
