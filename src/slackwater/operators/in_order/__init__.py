"""In-order execution of joins: wait before the work (Sync-Filter), after it (Filter-Order), or as the load asks for."""
