"""Messages that hold more than text: accepting files, and preparing them for a model."""
