// ends: TIMEOUT
export function run() {
  throw { get message() { while (true); } };
}
