"""Tables that are kept up to date: change rows are applied to a table, each micro-batch once."""
