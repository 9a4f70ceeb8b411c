// ends: TIMEOUT
export function run() {
  return "x".replace(/x/, () => { while (true); });
}
