"""A run as its log tells it: folds of what started and what settled, and the values they hold."""
