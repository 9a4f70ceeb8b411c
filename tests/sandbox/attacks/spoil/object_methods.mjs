for (const name of own(Object.prototype)) {
  if (name !== "__proto__") define(Object.prototype, name, { __proto__: null, value: evil });
}
