"""How producers send records to the subtasks of a consumer."""
