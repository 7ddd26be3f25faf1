"""Slack shared by queries over one source: where its buffers stand, what they cost, and how they change at run time."""
