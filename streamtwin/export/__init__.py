"""Export of runs to other programs: trace viewers, spreadsheets, data frames."""
