// ends: *
// seconds: 0.5
export function run() {
  const array = new Uint8Array(65536);
  for (;;) crypto.getRandomValues(array);
}
