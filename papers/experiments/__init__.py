"""The papers' experiments, run by the product's own code.

Invariant: what an experiment measures is an ordinary run of an ordinary query. Nothing outside this package draws.
"""
