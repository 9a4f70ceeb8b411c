// ends: SCRIPT_ERROR
export function run() {
  throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 2; }, has() { throw 3; } });
}
