// ends: OUT_OF_MEMORY
// seconds: 5
export function run() {
  let last = () => 0;
  while (true) { const before = last; last = () => before; }
}
