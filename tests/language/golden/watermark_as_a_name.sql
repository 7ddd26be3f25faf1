SELECT watermark.v FROM s watermark
