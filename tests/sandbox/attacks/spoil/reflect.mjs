for (const name of own(Reflect)) Reflect[name] = evil;
