"""slackwater: say how good the answer must be, not how long to wait."""

__version__ = "0.1.0"
