// ends: *
export function run() {
  let n = 3n;
  while (true) n *= n;
}
