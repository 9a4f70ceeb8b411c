"""Ten recipes for penstock and for two peers, run by tests and shown in docs/compare.md."""
