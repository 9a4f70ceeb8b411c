const traps = { __proto__: null, get: evil, has: evil, apply: evil, construct: evil, getPrototypeOf: evil };
const found = [];
for (const name of own(globalThis)) {
  const { configurable, value } = Object.getOwnPropertyDescriptor(globalThis, name);
  if (configurable && (typeof value === "function" || typeof value === "object") && !["fetch", "globalThis"].includes(name)) found.push(name);
}
for (const name of found) globalThis[name] = new ProxyBefore(globalThis[name], traps);
