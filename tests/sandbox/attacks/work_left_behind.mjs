// ends: success
// output: 1
export function run() {
  (async () => { for (;;) await null; })();
  return 1;
}
