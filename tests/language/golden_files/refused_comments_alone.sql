-- nothing yet
/* SELECT v FROM s */
