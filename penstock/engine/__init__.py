"""Durable work: logs, folds and activations; knows neither tools nor models."""
