"""The compiler of scripts: finds their files, strips types, checks them, and keeps the results."""
