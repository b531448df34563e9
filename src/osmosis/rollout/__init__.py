"""The SDK that user code imports; knows nothing of the platform."""
