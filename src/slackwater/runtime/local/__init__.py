"""The in-process runtime: replays arrivals against the kernels."""
