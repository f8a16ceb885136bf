"""Content of a DLC as plain values, for info, diff and view."""
