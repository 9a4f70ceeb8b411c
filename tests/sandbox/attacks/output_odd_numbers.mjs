// ends: success
// output: [null, null, null, 0, 1e308]
export function run() {
  return [NaN, Infinity, -Infinity, -0, 1e308];
}
