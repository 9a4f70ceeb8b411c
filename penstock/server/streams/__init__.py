"""Events as frames, and frames on their way to readers."""
