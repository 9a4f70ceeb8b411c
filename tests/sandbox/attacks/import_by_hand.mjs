// ends: success
// output: ["refused", "refused", "imported", "refused", "refused", "refused"]
const attempt = (specifier) => import(specifier).then(() => "imported", () => "refused");
export function run() {
  const specifiers = ["./other.mjs", "flo:guest", "flo:runtime", "file:///etc/passwd", "tool:///main.mjs", "std"];
  return Promise.all(specifiers.map(attempt));
}
