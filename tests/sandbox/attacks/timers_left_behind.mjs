// ends: success
// output: 1
export function run() {
  setInterval(() => { while (true); }, 1);
  setTimeout(() => { while (true); }, 1);
  return 1;
}
