"""Kafka: Spark's connector on the session, topics as streams, and a sink that writes every row once."""
