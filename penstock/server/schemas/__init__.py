"""What the API takes and answers, described: JSON Schemas, and the OpenAPI document."""
