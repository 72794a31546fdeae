"""An MCP server on the Python SDK 2.x over stdio that crashes, hangs, floods and leaves children on request."""

import os
import signal
import subprocess
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("wild")


@server.tool()
def pid() -> str:
    """The number of this process"""
    return str(os.getpid())


@server.tool()
def crash() -> str:
    """Ends at once"""
    print("this is how it ends", file=sys.stderr, flush=True)
    os._exit(9)


@server.tool()
async def hang() -> str:
    """Never answers, nor anything else"""
    while True:
        time.sleep(1000)


@server.tool()
def flood(megabytes: int) -> str:
    """Writes much to stderr"""
    for _ in range(megabytes * 1024):
        sys.stderr.write("x" * 1023 + "\n")
    return "flooded"


@server.tool()
def spawn() -> str:
    """Starts a process that would outlive this one"""
    return str(subprocess.Popen(["sleep", "1000"]).pid)


@server.tool()
async def deafen() -> str:
    """No longer hears SIGTERM"""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return "deaf"


server.run("stdio")
