"""Window aggregates: panes, partial values, holistic values, count and landmark windows."""
