"""One package per agent framework, under the vendor's module names."""
