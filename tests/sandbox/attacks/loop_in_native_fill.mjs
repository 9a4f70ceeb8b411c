// ends: TIMEOUT
export function run() {
  Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);
}
