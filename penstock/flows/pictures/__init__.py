"""A flow as a picture: in Mermaid, and in SVG."""
