"""What operators of queries look at: metrics, logs of events, a view in a notebook. All of it reads progress."""
