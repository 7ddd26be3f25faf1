"""Seeded inputs through the product's own kernels, measured against the targets it promises."""
