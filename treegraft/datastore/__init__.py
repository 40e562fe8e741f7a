"""Datastores of texts for REST (arXiv 2311.08252): tokens with their suffix array, in a folder."""
