"""A conversation: its settings, its history, its sessions."""
