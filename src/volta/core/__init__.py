"""What everything else speaks: data types, errors, checks, seeds, files."""
