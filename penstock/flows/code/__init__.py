"""Code steps: TypeScript modules of a flow, compiled and run in the sandbox."""
