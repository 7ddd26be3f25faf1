SELECT window.start FROM s
