SELECT limit, "left" FROM odd [1 MINUTE] ORDER BY limit DESC, "left" ASC NULLS LAST LIMIT 2
