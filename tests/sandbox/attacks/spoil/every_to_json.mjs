for (const kind of [String, Number, Boolean, BigInt, Function, Error, Promise, Symbol, Uint8Array]) {
  kind.prototype.toJSON = () => ({ evil });
}
