define(Array, Symbol.species, { __proto__: null, get: evil });
define(Array.prototype, "constructor", { __proto__: null, get: evil });
