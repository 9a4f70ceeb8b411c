"""What a running tool may touch, always inside a Scope."""
