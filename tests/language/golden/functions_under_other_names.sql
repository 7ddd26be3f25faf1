SELECT key, if(ok, v, 0) AS w, ifnull(name, 'none') AS x, nvl(v, 1) AS y FROM s
