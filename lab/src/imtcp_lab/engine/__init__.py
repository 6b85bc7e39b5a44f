"""Parts that both runners share: paths, host tools, small C programs, processors."""
