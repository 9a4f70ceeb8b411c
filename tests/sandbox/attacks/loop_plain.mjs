// ends: TIMEOUT
export function run() {
  while (true);
}
