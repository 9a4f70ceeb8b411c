// ends: OUT_OF_MEMORY
// seconds: 5
export function run() {
  const map = new Map();
  for (let n = 0; ; n++) map.set(n, { n });
}
