"""Freshet's core: the files here are pure; the packages here are the stages of the pipeline."""
