"""A fitted classifier as a service, and over whole folders of files."""
