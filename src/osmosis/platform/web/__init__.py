"""The pages: runs of a workspace, one run as it goes on, one sample with its conversation."""
