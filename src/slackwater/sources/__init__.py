"""Where tuples come from: files replayed in arrival order, encoded once into words."""
