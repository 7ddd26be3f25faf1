SELECT a.v FROM a [START WHEN ok END WHEN v > 1], b [5 s]
