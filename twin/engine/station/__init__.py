"""A replica's station: it queues records, has credits, takes CPU and aligns control items. Its logic makes results."""
