// ends: success
// or, where V8 runs it: OUT_OF_MEMORY
// V8 may have none left for itself when the script would catch it, and its process ends.
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
