// ends: TIMEOUT
export function run() {
  return Math.max(...{ *[Symbol.iterator]() { for (let n = 0; ; n++) if (n < 0) yield n; } });
}
