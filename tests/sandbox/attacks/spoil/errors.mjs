try { Error.prepareStackTrace = evil; } catch {}
Object.prototype.prepareStackTrace = evil;
for (const kind of [Error, TypeError, RangeError]) {
  kind.prototype.toString = evil;
  define(kind.prototype, "name", { __proto__: null, get: evil });
  define(kind.prototype, "constructor", { __proto__: null, get: evil });
}
