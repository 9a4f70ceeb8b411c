const names = ["attachments", "read", "stack", "refusal", "details", "code", "kind", "text", "json", "path", "empty"];
for (const name of [...names, "most", "resolve", "refuse", "isNeverRefused", "length", "value", "cause"]) {
  define(Object.prototype, name, { __proto__: null, value: evil, writable: true, configurable: true });
}
