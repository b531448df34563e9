"""Each body that crosses HTTP, defined once. Imports nothing of Osmosis but itself."""
