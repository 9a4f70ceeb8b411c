// ends: TIMEOUT
export function run() {
  const sparse = [];
  sparse[2 ** 32 - 2] = 1;
  sparse.sort();
}
