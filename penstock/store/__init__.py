"""The database and the blob store; only this package opens connections."""
