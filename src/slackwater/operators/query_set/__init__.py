"""Many queries over one reading, as one kernel."""
