"""What the server tells machines about itself: metrics for Prometheus, traces for OpenTelemetry."""
