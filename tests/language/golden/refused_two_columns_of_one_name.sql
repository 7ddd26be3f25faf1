SELECT v AS x, key AS x FROM s
