"""A platform on this machine to try things on: benchmarks, end-to-end tests and the demo share it.

Everything runs on loopback and dies with the lab.
"""
