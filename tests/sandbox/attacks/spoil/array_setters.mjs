// Not 0: there QuickJS itself keeps what JSON.stringify is in.
for (let at = 1; at < 20; at++) {
  define(Array.prototype, at, { __proto__: null, get: () => "forged", set: evil, configurable: true });
}
