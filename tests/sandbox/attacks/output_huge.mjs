// seconds: 5
// ends: OUTPUT_TOO_LARGE
export function run() {
  return "x".repeat(16 << 20);
}
