"""Results made and results lost, period by period: the ring, the meter, the synopsis, and the sum over shards."""
