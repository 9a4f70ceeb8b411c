// ends: success
// output: 0
export function run() {
  let asked = 0;
  const array = new Uint8Array(8);
  Object.defineProperty(array, "byteLength", { get: () => (asked++ < 2 ? 8 : 50_000_000) });
  crypto.getRandomValues(array);
  return asked;
}
