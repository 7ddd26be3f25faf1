SELECT v AS _row_number FROM s
