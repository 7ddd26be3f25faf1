"""Slack for a recall target of a join."""
