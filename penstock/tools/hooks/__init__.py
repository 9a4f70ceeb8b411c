"""Code of a program that sees, changes or stops what agents do."""
