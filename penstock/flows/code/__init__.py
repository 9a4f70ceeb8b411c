"""Code steps: TypeScript of a flow, read, entered and run in the sandbox."""
