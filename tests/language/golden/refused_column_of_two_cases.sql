SELECT pos FROM odd
