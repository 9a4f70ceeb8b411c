"""What an enclosed shell command has as its home."""

HOME = "/run/home"
