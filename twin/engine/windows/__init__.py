"""Windows: what they hold, when they are evaluated, and what comes out.

Each task draws its own random numbers, in this order. When a record is taken up, its key is drawn before its service
time, unless key groups gave it one or there is no choice. At an evaluation of a join, one number is drawn for each
match, if the mean number of results of a match is not whole. For measured results, the number of results is drawn, and
then for each result one number a side. Aggregates and sessions draw nothing at an evaluation.
"""
