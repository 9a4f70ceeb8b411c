// ends: success
// seconds: 5
// output: "still here"
export function run() {
  try {
    const kept = [];
    while (true) kept.push(new Uint8Array(1 << 20));
  } catch {
    return "still here";
  }
}
