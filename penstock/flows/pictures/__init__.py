"""Pictures of flows: Mermaid and SVG."""
