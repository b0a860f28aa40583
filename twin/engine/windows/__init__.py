"""What windows remember, when they are evaluated, and what comes out.

Random numbers are a task's own, in this order. As a record is taken up, before its service time: one for its key, where
key groups have not given it one and there is any choice. At an evaluation of a join: one for each match, where matches
are repeated and not a whole number of times; or, of measured results, one for how many there are, and then for each of
them one a side. Aggregates and sessions need none.
"""
