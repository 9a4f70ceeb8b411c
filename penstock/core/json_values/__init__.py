"""JSON values: strict parsing, canonical text, validation against a schema."""
