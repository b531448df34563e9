"""The parts of ``osmosis eval``: preparing a submit, showing a run, watching one."""
