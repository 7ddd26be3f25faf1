CREATE QUERY one AS SELECT v FROM s;
that is all
