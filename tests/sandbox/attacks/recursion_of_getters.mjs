// ends: SCRIPT_ERROR
export function run() {
  const odd = { get a() { return this.a; } };
  return odd.a;
}
