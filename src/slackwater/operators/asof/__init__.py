"""As-of joins: each tuple of one stream with the latest one of another that is not newer."""
