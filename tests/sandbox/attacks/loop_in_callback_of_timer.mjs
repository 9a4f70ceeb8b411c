// ends: TIMEOUT
export function run() {
  return new Promise(() => setTimeout(() => { while (true); }, 1));
}
