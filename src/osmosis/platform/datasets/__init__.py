"""Datasets on the platform: uploading, validating, listing, downloading, deleting."""
