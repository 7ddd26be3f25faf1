"""Estimators of counts above window joins, published and ours, raced on the same closed windows."""
