for (const name of Reflect.ownKeys(RegExp.prototype)) define(RegExp.prototype, name, { __proto__: null, value: evil });
