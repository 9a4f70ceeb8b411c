// ends: TIMEOUT
const again = () => queueMicrotask(again);
export function run() {
  again();
  return new Promise(() => {});
}
