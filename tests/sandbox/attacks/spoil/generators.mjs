const generated = Object.getPrototypeOf(function* () {}).prototype, asynchronous = Object.getPrototypeOf(async function* () {}).prototype;
generated.next = asynchronous.next = generated.return = Iterator.prototype[Symbol.iterator] = evil;
