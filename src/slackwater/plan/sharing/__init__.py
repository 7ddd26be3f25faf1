"""What several queries over one stream have in common: their filters, as one tree per source."""
