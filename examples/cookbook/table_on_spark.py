"""How is a table kept up to date with Spark, late rows included? Each row replaces the one with its key. What
`apply` does here, `results=sw.upsert("postgres", "counts", dsn="...")` does in PostgreSQL, Delta, Iceberg and Kafka.
"""

import tempfile

from streams import files_of, show, visits

import slackwater as sw

QUERY = """SELECT window_start, country, COUNT(*) AS pages FROM visits [1 MINUTE] GROUP BY country
    EMIT IN ORDER WITH CORRECTIONS FOR 10 MINUTES WITH DELAY 2 SECONDS"""
table, checkpoint = {}, tempfile.mkdtemp(prefix="cookbook-")


def apply(rows, number):
    table.update({(row.window_start, row.country): row.asDict() for row in rows.collect()})


spark = sw.session()
stream = (
    spark.readStream.schema("ts long, country string").option("maxFilesPerTrigger", 1).parquet(files_of(visits(15), 7))
)
end = {"trigger": "available", "flush": True, "checkpoint": checkpoint}
sw.start(spark, QUERY, visits=stream, time_unit="ms", results=apply, **end).wait()
show(list(table.values())[:3])
print(f"{len(table)} rows by key, {sum(row['pages'] for row in table.values())} pages in them")
