const views = Object.getPrototypeOf(Uint8Array.prototype);
for (const owner of [views, Uint8Array.prototype, ArrayBuffer.prototype, DataView.prototype]) {
  for (const name of Reflect.ownKeys(owner)) {
    if (Object.getOwnPropertyDescriptor(owner, name).configurable) define(owner, name, { __proto__: null, value: evil });
  }
}
