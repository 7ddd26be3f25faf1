"""The Spark runtime: the same kernels inside Structured Streaming. The only package that imports pyspark."""
