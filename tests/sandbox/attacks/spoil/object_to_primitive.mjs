Object.prototype[Symbol.toPrimitive] = evil;
Object.prototype[Symbol.toStringTag] = "evil";
Object.prototype[Symbol.iterator] = evil;
