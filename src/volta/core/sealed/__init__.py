"""The one way in which files of ours are written and read: sealed, of a kind and version, never through a link.

A seal is a checksum over all bytes of a file; it finds damage and exchange, and cannot tell who wrote the file. What a
sealed file says is therefore still taken with limits and with its types checked.
"""

from volta.core.sealed.arrays import pack_sealed, read_sealed, unpack_sealed, write_sealed
from volta.core.sealed.checksums import check_seal, checksum_of, seal_of_file
from volta.core.sealed.kind import FileKind
from volta.core.sealed.links import inside, is_plain_file, lock_file, open_file, open_to_write, read_file
from volta.core.sealed.objects import read_object, sealed_object, unsealed_object, write_note, write_object

__all__ = [
    "FileKind",
    "check_seal",
    "checksum_of",
    "inside",
    "is_plain_file",
    "lock_file",
    "open_file",
    "open_to_write",
    "pack_sealed",
    "read_file",
    "read_object",
    "read_sealed",
    "seal_of_file",
    "sealed_object",
    "unpack_sealed",
    "unsealed_object",
    "write_note",
    "write_object",
    "write_sealed",
]
