SELECT v FROM s WHERE ts > 'yesterday'
