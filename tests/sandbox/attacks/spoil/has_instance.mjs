const kinds = [Array, ArrayBuffer, Date, Error, Map, Object, Promise, RegExp, Set, URLSearchParams, FormData, Blob];
for (const kind of kinds) define(kind, Symbol.hasInstance, { __proto__: null, value: () => false });
