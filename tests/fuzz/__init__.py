"""Damaged and hostile files by the thousand: ``make fuzz``, or a few hundred of each kind in the usual tests."""
