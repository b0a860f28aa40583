"""A replica's station: it queues, has credits, takes CPU and aligns control items.

What a record becomes, its logic says.
"""
