// ends: *
// seconds: 5
export function run() {
  const kept = [];
  while (true) kept.push(new Promise(() => {}).then(() => {}));
}
