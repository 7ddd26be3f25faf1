"""Side outputs: the tuples that make no result, which are late ones and rejected ones, the same on every runtime.

Invariant: a tuple that is counted as late or as rejected reaches a side output once, under the reason that it is
counted for. `rows` says what such a row looks like, `collectors` keep them until they are asked for, and `rejections`
counts them and says when there are too many.
"""
