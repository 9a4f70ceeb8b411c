define(Promise, Symbol.species, { __proto__: null, get: evil });
