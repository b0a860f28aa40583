"""Windows in event time: instances, panes, and how complete windows are formed from partial ones (Enorm, DEBS 2016).

Pure functions over whole microseconds; the engine has windows in processing time alone (`twin/windows.py`).
"""
