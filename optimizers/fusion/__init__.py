"""Fusion: operators that can be partitioned alike become one component, inside which nothing is sent (Enorm, 4.3-4.4).

| to know | see |
|---|---|
| what a job must say | `job.py` |
| which attributes two operators have in common, what components are, and which may not be | `components.py` |
| how operators are fused | `algorithms.py`, `exact.py` |
| which query of the twin is which job | `query_job.py` |
| plans that fuse, and how they are found | `arrangement.py`, `optimizer.py` |
"""
