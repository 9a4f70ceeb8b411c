// ends: *
export function run() {
  let target = {};
  for (let n = 0; n < 100000; n++) target = new Proxy(target, {});
  return target.x;
}
