"""The vocabulary every other package speaks. Imports nothing of ours."""
