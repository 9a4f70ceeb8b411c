"""A run as its log records it: folds of what started and what settled, and the values they hold."""
