const methods = own(String.prototype).filter((name) => typeof String.prototype[name] === "function");
for (const name of methods) {
  try { String.prototype[name] = evil; } catch {}
}
String.prototype[Symbol.iterator] = String.fromCharCode = String.raw = evil;
