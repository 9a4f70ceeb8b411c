// ends: *
// seconds: 0.5
export function run() {
  const kept = [];
  while (true) try { kept.push(new Array(1000).fill(1)); } catch {}
}
