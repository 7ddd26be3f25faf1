SELECT limit, left, v, V FROM odd WHERE limit * left > limit AND odd.case = 1
