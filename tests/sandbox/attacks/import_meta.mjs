// ends: success
// output: []
export function run() {
  return Reflect.ownKeys(import.meta).map(String);
}
