// ends: success
// output: false
export function run() {
  try { null.x; } catch (error) { return /\/(home|root|usr|work|tmp)\b|site-packages|\.py/.test(error.stack); }
}
