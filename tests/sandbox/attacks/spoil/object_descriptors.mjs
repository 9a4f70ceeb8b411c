for (const name of ["get", "set", "configurable", "enumerable", "writable", "constructor"]) {
  define(Object.prototype, name, { __proto__: null, value: evil });
}
