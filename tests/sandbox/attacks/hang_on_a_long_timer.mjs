// ends: TIMEOUT
export function run() {
  return new Promise((resolve) => setTimeout(resolve, 3000000));
}
