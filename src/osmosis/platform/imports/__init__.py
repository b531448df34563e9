"""Local runs that come in: their files are uploaded, checked, and become a run like any other."""
