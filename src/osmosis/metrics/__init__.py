"""Every number we report, defined once; pure functions."""
