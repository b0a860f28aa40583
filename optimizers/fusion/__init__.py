"""Fusion: operators that can be partitioned alike become one component, inside which nothing is sent (Enorm, 4.3-4.4).

| to know | see |
|---|---|
| what a job must say | `job.py` |
| which attributes two operators have in common, what components are, and which are not valid | `components.py` |
| how operators are fused | `algorithms.py`, `exact.py` |
| how a query of the twin becomes such a job | `query_job.py` |
| plans that fuse, and how they are found | `arrangement.py`, `optimizer.py` |
"""
