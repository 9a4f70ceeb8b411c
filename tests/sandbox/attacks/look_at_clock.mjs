// ends: success
// output: [0, 0]
export function run() {
  const begun = Date.now(), mark = performance.now();
  for (let n = 0; n < 100000; n++);
  return [Date.now() - begun, performance.now() - mark];
}
