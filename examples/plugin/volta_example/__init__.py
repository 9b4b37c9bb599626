"""A method, a metric, a task and a backbone that VOLTA finds by the entry points of this package."""
