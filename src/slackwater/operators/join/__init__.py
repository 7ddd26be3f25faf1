"""The m-way window join."""
