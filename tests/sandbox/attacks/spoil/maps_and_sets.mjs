for (const kind of [Map, Set, WeakMap, WeakSet]) {
  for (const name of own(kind.prototype)) define(kind.prototype, name, { __proto__: null, value: evil });
}
