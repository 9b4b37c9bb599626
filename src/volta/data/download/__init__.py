"""Bytes from elsewhere: what an archive is, how it is transferred, how it is unpacked."""
