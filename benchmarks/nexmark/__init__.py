"""NEXMark, an auction house: its generator, its queries in our SQL, in Flink's and in DuckDB's, and a race over them.

`python -m benchmarks.nexmark` runs it; docs/nexmark.md has what it gave.
"""
