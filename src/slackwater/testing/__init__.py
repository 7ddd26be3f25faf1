"""Public helpers for tests: a Kafka broker on loopback."""
