"""What is computed over an ordered, late-aware stream: filter, aggregate, join. One algorithm per file."""
