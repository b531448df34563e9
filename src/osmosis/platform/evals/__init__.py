"""Evaluation runs: submitting, reading, stopping and deleting them, and downloading results."""
