// ends: OUT_OF_MEMORY
// seconds: 5
export function run() {
  const kept = [];
  while (true) kept.push(new Array(1000).fill("x"));
}
