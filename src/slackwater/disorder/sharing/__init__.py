"""Disorder handled once for many queries over the same streams."""
