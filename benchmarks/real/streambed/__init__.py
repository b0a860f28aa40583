"""StreamBed's published runs of Flink beside the twin: calibrated on small clusters, judged on large ones."""
