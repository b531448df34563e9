"""Runs compared with each other: read, matched by row, judged, said in plain words."""
