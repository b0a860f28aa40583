"""A black box, such as a learned model, drives a search that physics keeps on the road."""
