"""What a call returns, as it is stored and shown: outputs, artifacts, redaction."""
