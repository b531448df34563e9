"""The vendor's module name of the rubric: ``osmosis_ai.eval.rubric`` moves here unchanged."""
