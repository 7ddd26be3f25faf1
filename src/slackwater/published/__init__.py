"""Algorithms as the documents have them, which a query asks for by name. Nothing imports them: see `core.registry`."""
