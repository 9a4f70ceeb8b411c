// ends: SCRIPT_ERROR
// says: the script waits for a promise that nothing will settle
export function run() {
  let left = 100;
  const ticking = setInterval(() => { if (--left === 0) clearInterval(ticking); }, 1);
  return new Promise(() => {});
}
