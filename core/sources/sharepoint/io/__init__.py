"""Speaks to SharePoint, and reads and writes the local copies and their map files."""
