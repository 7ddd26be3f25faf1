"""Recorded streams on Spark: one file an epoch in, one file a micro-batch out."""
