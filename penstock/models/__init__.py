"""One question to a model, streamed back."""
