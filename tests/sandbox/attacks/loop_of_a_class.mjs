// ends: TIMEOUT
class Looping { static { while (true); } }
export function run() {
  return Looping;
}
