SELECT rate.v FROM a rate [RATE 10 s BY ARRIVAL], b match [RATE 10 s BY ARRIVAL]
WHERE rate.key = match.key MATCH TIME WITHIN 500 ms WITH NO WAIT
