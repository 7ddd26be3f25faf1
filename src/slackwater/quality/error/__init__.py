"""Slack for an error target of an aggregate."""
