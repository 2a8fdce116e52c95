"""Pure market logic: no input or output, no clock, no chance."""
