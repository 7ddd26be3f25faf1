"""The algorithms of the W-join report, for joins with one window for all streams."""
