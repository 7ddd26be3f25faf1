"""What a streaming query tells about itself: one typed value a micro-batch, added up over shards."""
