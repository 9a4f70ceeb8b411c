Object.getPrototypeOf([][Symbol.iterator]()).next = evil;
