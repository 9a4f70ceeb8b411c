for (const name of ["all", "race", "resolve", "reject", "any", "allSettled", "withResolvers", "try"]) Promise[name] = evil;
