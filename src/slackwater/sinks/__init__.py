"""What leaves: results as rows or counts, late rows, rejected rows."""
