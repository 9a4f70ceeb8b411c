// ends: success
// output: []
export function run() {
  const unwanted = ["process", "require", "Deno", "Buffer", "WebAssembly", "SharedArrayBuffer", "Atomics", "Worker",
    "localStorage", "Intl", "WeakRef", "FinalizationRegistry", "std", "os", "bjson", "print", "scriptArgs", "post", "answer", "global", "window", "self"];
  return unwanted.filter((name) => name in globalThis);
}
