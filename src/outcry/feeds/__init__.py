"""Where trades come from: one package a source."""
