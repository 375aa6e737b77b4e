"""A small SharePoint on loopback: libraries, lists and site pages that speak SharePoint's REST, with no account.

`python -m scripts.sample_sharepoint --port 8009` serves it.
"""
