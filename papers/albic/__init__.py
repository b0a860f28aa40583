"""ALBIC (load balancing, scaling and collocation of key groups, 2016): its tables and figures, a file each."""
