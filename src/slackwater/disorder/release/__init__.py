"""From slack heaps through the synchronizer to ordered batches."""
