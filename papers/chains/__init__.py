"""Chains of K-slack buffers that several queries share, as published: configurations, placements, adaptation."""
