"""The papers beside the product: their experiments, datasets and baselines. Not a part of the wheel."""
