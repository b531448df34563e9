"""The main job on this machine, from an empty directory to results; `python -m demo`."""
