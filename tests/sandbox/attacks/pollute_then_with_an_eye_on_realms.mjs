// ends: success
// output: []
const strangers = [];
const look = (name, value) => {
  if ((typeof value === "object" || typeof value === "function") && value !== null && !(value instanceof Object)) strangers.push(name);
};
const before = Promise.prototype.then;
Promise.prototype.then = function (...given) {
  look("this", this);
  for (const each of given) look("then", each);
  return before.apply(this, given);
};
Object.defineProperty(Promise, Symbol.species, { get: () => class extends Promise {
  constructor(executor) {
    look("species", executor);
    super(executor);
  }
} });
const views = Object.getPrototypeOf(Uint8Array.prototype);
for (const name of ["set", "slice", "subarray"]) {
  const method = views[name];
  views[name] = function (...given) {
    for (const each of given) look(name, each);
    return method.apply(this, given);
  };
}
export async function run() {
  await flo.callTool({ tool_id: "look" });
  crypto.getRandomValues(new Uint8Array(4));
  await crypto.subtle.digest("SHA-256", new TextEncoder().encode("a"));
  flo.time.formatUnixTimestamp(1, "YYYY");
  return strangers;
}
