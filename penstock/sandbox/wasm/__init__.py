"""The engine of this process: QuickJS in wasm, a machine for each entry."""
