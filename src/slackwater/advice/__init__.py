"""`slackwater advise`: what every slack would have cost and kept on recorded streams, from one pass over them.

Invariant: whatever a run WITH DELAY K loses was lost because a tuple met a watermark that had gone too far; and for
every result there is one *least slack*, from which on it is found. So one pass gives the answer for every K at once.
"""
