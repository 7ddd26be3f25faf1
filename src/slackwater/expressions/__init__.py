"""Expressions over streams: the typed tree, the functions it may call, and its compilation to machine code."""
