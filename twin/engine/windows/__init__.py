"""What windows remember, when they are evaluated, and what comes out.

Each task draws its own random numbers, in this order. When a record is taken up, before its service time, its key is
drawn, unless key groups gave it one or there is no choice. At an evaluation of a join, one number is drawn for each
match, if matches are repeated and not a whole number of times. For measured results, the number of results is drawn,
and then for each result one number a side. Aggregates and sessions draw nothing at an evaluation.
"""
