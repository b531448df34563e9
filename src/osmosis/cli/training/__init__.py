"""What ``osmosis train`` needs beyond its command lines."""
