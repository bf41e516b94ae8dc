"""Facts about a model: element types and ranges of integers (`inference`), bounds of values (`bounds`)."""
