"""Gates: the verdict on a run by thresholds that somebody sets."""
