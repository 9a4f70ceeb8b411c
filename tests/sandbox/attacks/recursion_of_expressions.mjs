// ends: *
export function run() {
  return new RegExp("(".repeat(100000) + ")".repeat(100000)).test("x");
}
