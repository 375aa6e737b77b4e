<?xml version="1.0"?>
<CHANNEL HREF="http://cdf.example/" BASE="http://cdf.example/items/">
  <TITLE>Active channel</TITLE>
  <ITEM HREF="1.html" LASTMOD="1998-01-06"><TITLE>One</TITLE><ABSTRACT>Short.</ABSTRACT></ITEM>
</CHANNEL>
