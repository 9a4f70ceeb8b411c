"""People over HTTP, one file per resource."""
