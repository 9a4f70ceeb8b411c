// ends: TIMEOUT
export function run() {
  console.log(new Proxy({}, { ownKeys() { while (true); } }));
}
