"""Where runs are made: processes of this machine, or a Spark cluster."""
