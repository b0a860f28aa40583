"""Fusion: operators that can be partitioned alike become one component, inside which nothing is sent (Enorm, 4.3-4.4).

| to know | see |
|---|---|
| what a job must say | `job.py` |
| what operators have in common, components and the algorithms that make them | `components.py` |
| how a query of the twin becomes such a job, plans that fuse, and how they are found | `optimizer.py` |
"""
