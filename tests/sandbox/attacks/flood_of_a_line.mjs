// seconds: 5
// ends: success
export function run() {
  console.log("x".repeat(4 << 20));
}
