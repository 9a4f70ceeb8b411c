// ends: success
// output: []
export function run() {
  const found = [];
  const seen = new Set();
  const walk = (value, path) => {
    if ((typeof value !== "object" && typeof value !== "function") || value === null || seen.has(value)) return;
    seen.add(value);
    if (typeof value === "function" && ["post", "answer", "encodeUtf8", "decodeUtf8", "digest_", "randomBytes"].includes(value.name)) found.push(path);
    for (const key of Reflect.ownKeys(value)) {
      const property = Object.getOwnPropertyDescriptor(value, key);
      for (const part of [property.value, property.get, property.set]) walk(part, `${path}.${String(key)}`);
    }
    walk(Object.getPrototypeOf(value), `${path}.__proto__`);
  };
  walk(globalThis, "globalThis");
  return found;
}
