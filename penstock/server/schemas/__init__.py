"""Descriptions of the API: JSON Schemas and the OpenAPI document."""
