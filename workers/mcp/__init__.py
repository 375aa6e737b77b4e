"""The MCP server: search, articles, sources and runs as tools for agents. Inside, `mcp` is the official SDK."""
