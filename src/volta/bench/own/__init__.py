"""Own predictions become cells of a run folder: files are read, checked, their rows matched, and stored."""
