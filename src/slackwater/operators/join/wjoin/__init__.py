"""The algorithms of the W-join report, and their approaches to windows that differ from pair to pair."""
