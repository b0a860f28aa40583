"""Shadow: a twin beside a running job, which reads its metrics, forecasts backpressure, and finds moves against it."""
