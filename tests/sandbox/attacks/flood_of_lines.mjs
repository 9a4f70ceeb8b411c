// seconds: 5
// ends: success
export function run() {
  for (let n = 0; n < 50000; n++) console.log("line", n);
}
