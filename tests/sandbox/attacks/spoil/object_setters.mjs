const names = ["value", "key", "url", "headers", "body", "attachment", "kind", "name", "message", "stack", "0", "1"];
for (const name of [...names, "level", "scope_kind", "title", "payload", "call", "number", "details"]) {
  define(Object.prototype, name, { __proto__: null, set: evil, configurable: true });
}
