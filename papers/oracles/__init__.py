"""Slow twins of published code, which share nothing with what they judge."""
