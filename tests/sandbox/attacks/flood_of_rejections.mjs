// seconds: 5
// ends: success
export function run() {
  for (let n = 0; n < 5000; n++) Promise.reject(new Error(`lost ${n}`));
}
