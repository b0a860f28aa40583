"""ALBIC (load balancing, scaling and collocation of key groups, 2016): a file for each kind of job."""
