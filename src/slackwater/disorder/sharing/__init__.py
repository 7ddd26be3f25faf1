"""Slack that several queries share: one ordered log for all of them, and the published chains of K-slack buffers."""
