"""Collections that compiled loops share: heaps, hash tables, records in hash chains, chains in order of time, rings,
segments of words, numbers for keys."""
