SELECT CAST(v AS INT) AS i, TRY_CAST(name AS DOUBLE) AS d, key::string AS k, CAST(ts AS BIGINT) AS seconds,
       CAST(NULL AS STRING) AS nothing, CAST(key AS BIGINT) AS same, CAST(v AS double precision) AS alike
FROM s
