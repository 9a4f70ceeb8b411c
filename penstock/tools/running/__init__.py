"""One call while the invoker works on it: its state, its cancellation, its deadline."""
