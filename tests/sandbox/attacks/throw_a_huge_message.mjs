// seconds: 5
// ends: SCRIPT_ERROR
export function run() {
  throw new Error("x".repeat(8 << 20));
}
