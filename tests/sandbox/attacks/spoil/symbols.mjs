for (const name of own(Symbol.prototype)) define(Symbol.prototype, name, { __proto__: null, value: evil });
