"""A real local Flink as the judge: jobs run, are imported, calibrated on half of their points, and predicted."""
