// seconds: 5
// ends: OUTPUT_TOO_LARGE
export function run() {
  return "ä".repeat(600000);
}
