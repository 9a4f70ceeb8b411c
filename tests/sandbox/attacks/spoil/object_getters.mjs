const names = ["attachments", "read", "stack", "refusal", "details", "code", "kind", "text", "json", "path", "empty"];
for (const name of [...names, "most", "resolve", "refuse", "toJSON", "value", "key", "get", "set", "0", "1", "2"]) {
  define(Object.prototype, name, { __proto__: null, get: evil, set: evil, configurable: true });
}
