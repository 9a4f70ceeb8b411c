// ends: BUDGET_EXCEEDED
// seconds: 5
export function run() {
  for (;;) clearTimeout(setTimeout(() => {}, 1000));
}
