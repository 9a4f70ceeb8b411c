// ends: TIMEOUT
export function run() {
  while (true) { try { while (true); } catch {} finally { continue; } }
}
