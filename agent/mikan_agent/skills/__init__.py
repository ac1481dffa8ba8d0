"""Skills: instructions for particular tasks, in the public Agent Skills form, that a model loads when one fits."""
